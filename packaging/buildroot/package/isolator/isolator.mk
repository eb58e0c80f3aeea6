################################################################################
#
# isolator
#
################################################################################

ISOLATOR_VERSION = @VERSION@
ISOLATOR_SITE = file://$(BR2_EXTERNAL_ISOLATOR_PATH)/..
ISOLATOR_LICENSE = MIT or Apache-2.0, GPL-2.0 (kernel patches, QEMU plugin)
ISOLATOR_LICENSE_FILES = LICENSE-MIT LICENSE-APACHE LICENSE-GPL-2.0
# Buildroot adds the crates to the archive, by Cargo.lock and its sums
BR_NO_CHECK_HASH_FOR += $(ISOLATOR_SOURCE)

# The wrapper around clang adds options of the target, which BPF is not
ifeq ($(BR2_PACKAGE_ISOLATOR_BPF),y)
ISOLATOR_DEPENDENCIES += host-clang
ISOLATOR_CARGO_ENV += CLANG=$(HOST_DIR)/bin/clang.br_real
else
ISOLATOR_CARGO_ENV += CLANG=/none
endif

ISOLATOR_SUBDIR = crates/cli
ISOLATOR_CARGO_ENV += ISOLATOR_COMMIT=v$(ISOLATOR_VERSION)

$(eval $(cargo-package))
