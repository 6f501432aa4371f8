//! SHA-256 as this API writes it: hex in a job's status, a structured field
//! (`sha-256=:BASE64:`, RFC 9530) in headers.

use std::fmt;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use sha2::{Digest as _, Sha256};

/// The SHA-256 of a file or result.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct Digest([u8; 32]);

impl Digest {
    /// Ends a running computation.
    pub(crate) fn of(hasher: Sha256) -> Self {
        Self(hasher.finalize().into())
    }

    pub(crate) fn from_hex(text: &str) -> Option<Self> {
        let text = text.as_bytes();
        if text.len() != 64 {
            return None;
        }
        let mut raw = [0; 32];
        for (byte, pair) in raw.iter_mut().zip(text.chunks_exact(2)) {
            let digit = |at: usize| char::from(pair[at]).to_digit(16);
            *byte = u8::try_from(digit(0)? << 4 | digit(1)?).ok()?;
        }
        Some(Self(raw))
    }

    /// The value of `Glovebox-File-Digest`.
    pub(crate) fn field(&self) -> String {
        format!("sha-256=:{}:", STANDARD.encode(self.0))
    }

    /// Reads a `Repr-Digest` field. `Ok(None)` when it holds no sha-256;
    /// an error when one is there and malformed, or two contradict each other.
    pub(crate) fn from_field(field: &str) -> Result<Option<Self>, Malformed> {
        let mut found = None;
        for member in field.split(',') {
            let Some((name, value)) = member.trim().split_once('=') else { continue };
            if name != "sha-256" {
                continue;
            }
            let value = value.split(';').next().unwrap_or_default().trim();
            let encoded = value
                .strip_prefix(':')
                .and_then(|value| value.strip_suffix(':'))
                .ok_or(Malformed)?;
            let raw = STANDARD.decode(encoded).map_err(|_| Malformed)?;
            let digest = Self(raw.try_into().map_err(|_| Malformed)?);
            if found.is_some_and(|earlier| earlier != digest) {
                return Err(Malformed);
            }
            found = Some(digest);
        }
        Ok(found)
    }
}

/// A digest field that cannot be read: it protects nothing and is refused.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Malformed;

impl fmt::Display for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// FIPS 180-2, appendix B.1: SHA-256 of "abc".
    const ABC: &str = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";

    fn abc() -> Digest {
        Digest::of(Sha256::new_with_prefix(b"abc"))
    }

    #[test]
    fn the_standard_vector_in_both_forms() {
        assert_eq!(abc().to_string(), ABC);
        assert_eq!(Digest::from_hex(ABC), Some(abc()));
        assert_eq!(Digest::from_hex(&ABC.to_uppercase()), Some(abc()));
        assert_eq!(abc().field(), "sha-256=:ungWv48Bz+pBQUDeXa4iI7ADYaOWF3qctBD/YfIAFa0=:");
        assert_eq!(Digest::from_field(&abc().field()), Ok(Some(abc())));
    }

    #[test]
    fn what_is_not_hex_is_refused() {
        for wrong in
            ["", "ba78", &ABC[1..], &format!("{ABC}0"), &ABC.replace('b', "g"), &"é".repeat(32)]
        {
            assert_eq!(Digest::from_hex(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn fields_with_other_members_are_read() {
        let field = format!("sha-512=:AAAA:, {};x=1", abc().field());
        assert_eq!(Digest::from_field(&field), Ok(Some(abc())));
        assert_eq!(Digest::from_field("sha-512=:AAAA:"), Ok(None));
        assert_eq!(Digest::from_field(""), Ok(None));
    }

    #[test]
    fn malformed_or_contradicting_fields_are_refused() {
        let other = Digest([7; 32]).field();
        for wrong in [
            "sha-256=",
            "sha-256=::",
            "sha-256=:AAAA:",
            "sha-256=:not base64:",
            "sha-256=ungWv48Bz+pBQUDeXa4iI7ADYaOWF3qctBD/YfIAFa0=",
            &format!("{}, {other}", abc().field()),
        ] {
            assert_eq!(Digest::from_field(wrong), Err(Malformed), "{wrong}");
        }
    }

    proptest! {
        #[test]
        fn any_digest_comes_back(raw in any::<[u8; 32]>()) {
            let digest = Digest(raw);
            prop_assert_eq!(Digest::from_hex(&digest.to_string()), Some(digest));
            prop_assert_eq!(Digest::from_field(&digest.field()), Ok(Some(digest)));
        }

        #[test]
        fn any_text_is_survived(text in any::<String>()) {
            let _ = Digest::from_hex(&text);
            let _ = Digest::from_field(&text);
        }
    }
}
