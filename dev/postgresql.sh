# Sourced by `make test`: whether this machine has a PostgreSQL server's program for the tests' private instances. Without one,
# a person's run leaves those tests out and says so; CI's run fails, because half a contract is none.
if ! compgen -G '/usr/lib/postgresql/*/bin/postgres' >/dev/null && ! command -v postgres >/dev/null; then
  if [ -z "${CI:-}" ] && [ -z "${BANYAN_TEST_POSTGRESQL:-}" ]; then
    echo 'make test: no PostgreSQL server here, so the store is tested on SQLite only (for both: apt install postgresql)' >&2
    export BANYAN_TEST_POSTGRESQL=skip
  fi
fi
