#!/usr/bin/env bash
# Makes dist/banyan-VERSION-PYTHON-MACHINE.tar.gz: Banyan and all it needs as wheels, the script that installs them without a
# network, the units and the examples. Needs a package index; whoever installs it needs none.
set -euo pipefail
cd "$(dirname "$0")/.."
python=.venv/bin/python

version=$("$python" -c 'import banyan; print(banyan.__version__)')
for_python=$("$python" -c 'import sys; print(f"{sys.version_info[0]}.{sys.version_info[1]}")')
name=banyan-$version-py$for_python-$(uname -m)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir -p "$work/$name" dist
"$python" -m pip wheel --quiet --disable-pip-version-check --wheel-dir "$work/$name/wheels" . </dev/null
cp contrib/bundle/install.sh "$work/$name/"
mkdir "$work/$name/contrib"
cp -r contrib/systemd contrib/cloud-init contrib/ansible "$work/$name/contrib/"
cp LICENSE "$work/$name/"
printf 'version %s\npython %s\nmachine %s\n' "$version" "$for_python" "$(uname -m)" >"$work/$name/BUNDLE"
(cd "$work/$name" && find . -type f ! -name SHA256SUMS -printf '%P\n' | sort | xargs sha256sum >SHA256SUMS)
tar -C "$work" --sort=name --owner=0 --group=0 -czf "dist/.$name.part" "$name"
mv "dist/.$name.part" "dist/$name.tar.gz"
printf '%s\n' "dist/$name.tar.gz"
