#!/usr/bin/env bash
# Tests a wheel for aarch64 and CPython 3.11 under an emulator: Debian's Python for ARM, in a folder, run by qemu.
#     runtime/tests/check_arm_wheel.sh PYTHON WHEEL [FOLDER = runtime/build/arm]
# PYTHON is the one that fetches packages. Only as root on Debian, with the packages debootstrap and qemu-user.
set -euo pipefail
python=$(realpath -s "$(command -v "${1:?usage: check_arm_wheel.sh PYTHON WHEEL [FOLDER]}")")
wheel=$(realpath "${2:?usage: check_arm_wheel.sh PYTHON WHEEL [FOLDER]}")
cd "$(dirname "$0")"
root=${3:-../build/arm}
for tool in debootstrap qemu-aarch64; do
  command -v $tool >/dev/null || { echo "skipped: $tool is missing (Debian packages debootstrap and qemu-user)"; exit 0; }
done

if [ ! -e "$root/ready" ]; then
  debootstrap --foreign --arch=arm64 --variant=minbase --include=python3 bookworm "$root" >/dev/null
  for package in "$root"/var/cache/apt/archives/*.deb; do dpkg-deb -x "$package" "$root"; done
  touch "$root/ready"
fi
rm -rf "$root/site"
own=${wheel##*-}  # the systems it is for
own=${own%.whl}
"$python" -m pip install --quiet --disable-pip-version-check --target "$root/site" \
  --platform "${own%%.*}" --platform manylinux_2_28_aarch64 --platform manylinux_2_17_aarch64 \
  --python-version 3.11 --only-binary :all: --upgrade "$wheel" numpy Pillow pytest hypothesis

# Tests that start no programs: the emulator runs one.
PYTHONPATH=$root/site:. PYTHONDONTWRITEBYTECODE=1 qemu-aarch64 -cpu max -L "$root" "$root/usr/bin/python3.11" -m pytest \
  -q -p no:cacheprovider --rootdir=. test_networks.py test_operations.py test_version_2.py test_facts.py \
  test_bad_inputs.py test_bad_files.py \
  -k "not forked_process and not system_does_not_give and not for_each_core"
