#!/bin/sh
# Headers and libraries of OpenSSL 3 inside an image of manylinux (AlmaLinux) or musllinux (Alpine), for the builds of
# `[tool.cibuildwheel]` in pyproject.toml. The wheel links libssl.so.3 and leaves it to the system that it runs on.
set -eu
if command -v apk > /dev/null; then
    apk add --no-cache openssl-dev
else
    # The distribution's own release is 1.1.1, whose library has another name; EPEL has 3.x beside it.
    dnf install --assumeyes epel-release
    dnf install --assumeyes openssl3-devel
    ln -sfn /usr/include/openssl3/openssl /usr/local/include/openssl
    ln -sfn /usr/lib64/openssl3/libssl.so /usr/local/lib/libssl.so
    ln -sfn /usr/lib64/openssl3/libcrypto.so /usr/local/lib/libcrypto.so
fi
