#!/bin/sh
# Installs Banyan from this bundle, without any network: ./install.sh [--prefix DIR] [--python PROGRAM] [--systemd]
#
#   --prefix DIR     where it goes (/opt/banyan); run again with a newer bundle, it is brought up to that one
#   --python PROGRAM which Python (python3): the version that the bundle was made for stands in BUNDLE
#   --systemd        also: the units, and the user `banyan` that they run as (needs root)
set -eu

here=$(cd "$(dirname "$0")" && pwd)
prefix=/opt/banyan python=python3 systemd=no

fail() {
  printf 'install: %s\n' "$*" >&2
  exit 1
}

while [ $# -gt 0 ]; do
  case $1 in
    --prefix) [ $# -ge 2 ] || fail "--prefix needs a folder"; prefix=$2; shift 2 ;;
    --python) [ $# -ge 2 ] || fail "--python needs a program"; python=$2; shift 2 ;;
    --systemd) systemd=yes; shift ;;
    -h | --help) sed -n '2,6s/^# \{0,1\}//p' "$0"; exit 0 ;;
    *) fail "there is no option $1; see --help" ;;
  esac
done

(cd "$here" && sha256sum --check --quiet --strict SHA256SUMS) ||
  fail "this bundle is not as it was made: a file is missing or changed (see above); copy it again"
command -v "$python" >/dev/null || fail "there is no $python here; name one with --python"
wanted=$(sed -n 's/^python //p' "$here/BUNDLE")
found=$("$python" -c 'import sys; print(f"{sys.version_info[0]}.{sys.version_info[1]}")')
[ "$found" = "$wanted" ] || fail "this bundle is for Python $wanted, and $python is $found; name another with --python"
machine=$(sed -n 's/^machine //p' "$here/BUNDLE")
[ "$(uname -m)" = "$machine" ] || fail "this bundle is for $machine, and this machine is $(uname -m)"

if [ ! -x "$prefix/bin/python" ]; then
  "$python" -m venv "$prefix" || fail "$python cannot make a virtual environment in $prefix (on Debian: python3-venv)"
fi
"$prefix/bin/python" -m pip install --quiet --disable-pip-version-check --no-index --find-links "$here/wheels" \
  --upgrade banyan-cloud || fail "pip could not install from the bundle; see above"

if [ "$systemd" = yes ]; then
  [ "$prefix" = /opt/banyan ] || fail "the units run /opt/banyan/bin/banyan: --systemd goes with that prefix only"
  install -D -m 0644 -t /etc/systemd/system "$here"/contrib/systemd/*.service "$here"/contrib/systemd/*.timer
  install -D -m 0644 "$here/contrib/systemd/banyan.sysusers" /etc/sysusers.d/banyan.conf
  install -d -m 0755 /etc/banyan
  systemd-sysusers /etc/sysusers.d/banyan.conf
  systemctl daemon-reload
fi
printf 'installed %s in %s\n' "$("$prefix/bin/banyan" --version)" "$prefix"
