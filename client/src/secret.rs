//! A string that is wiped when dropped and cannot be printed.

use std::fmt;

use zeroize::Zeroizing;

/// A token or a password. It has no `Display`, and its `Debug` says nothing;
/// `expose` is the one way to the text, so that a search finds every use (REL-02).
#[derive(Clone)]
pub(crate) struct Secret(Zeroizing<String>);

impl Secret {
    pub(crate) fn new(text: String) -> Self {
        Self(Zeroizing::new(text))
    }

    pub(crate) fn expose(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("[secret]")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn debug_says_nothing() {
        let secret = Secret::new("hunter2".to_owned());
        assert_eq!(format!("{secret:?}"), "[secret]");
        assert_eq!(secret.expose(), "hunter2");
    }
}
