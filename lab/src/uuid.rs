//! Random names in the form of a UUID.

/// A random name in UUID form; it need not be secret.
pub(super) fn random() -> String {
    let random = fastrand::u128(..);
    let bits = random & !(0xf << 76) & !(0x3 << 62) | (0x4 << 76) | (0x2 << 62);
    let hex = format!("{bits:032x}");
    format!("{}-{}-{}-{}-{}", &hex[..8], &hex[8..12], &hex[12..16], &hex[16..20], &hex[20..])
}
