//! File names: the one that is sent, and the one a result gets.
//!
//! A result's name is made from the user's own file name, never from what a
//! server says, and holds no path and no character that a terminal or a shell
//! completion could trip over.

use std::path::Path;

use uuid::Uuid;

use crate::sanitize;

/// Bytes that every common filesystem takes in one name, less room for
/// ".part.json" and ".out".
const LONGEST: usize = 230;

/// The last part of `path`, harmless and bounded; `fallback` where nothing is
/// left of it.
pub(crate) fn clean(path: &Path, fallback: &str) -> String {
    let raw = path.file_name().unwrap_or_default().as_encoded_bytes();
    let text = String::from_utf8_lossy(raw);
    // A name from another system's journal may hold its separators.
    let last = text.rsplit(['/', '\\']).next().unwrap_or_default();
    let mut name = String::new();
    for c in last.chars() {
        let c = if sanitize::is_dangerous(c) { '_' } else { c };
        if name.len() + c.len_utf8() > LONGEST {
            break;
        }
        name.push(c);
    }
    match name.trim() {
        "" | "." | ".." => fallback.to_owned(),
        _ => name,
    }
}

/// The name of the result of a file called `name`: "game.lua" gives
/// "game.out.lua", "Makefile" gives "Makefile.out".
pub(crate) fn result_of(name: &str) -> String {
    let name = clean(Path::new(name), "result");
    match name.rsplit_once('.') {
        Some((stem, extension)) if !stem.is_empty() && !extension.is_empty() => {
            format!("{stem}.out.{extension}")
        }
        _ => format!("{name}.out"),
    }
}

/// The name of the result of a job this client did not submit.
pub(crate) fn result_of_job(id: Uuid) -> String {
    format!("{id}.out")
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::ffi::OsStr;
    use std::os::unix::ffi::OsStrExt as _;

    #[test]
    fn results_are_named_after_their_files() {
        for (name, result) in [
            ("game.lua", "game.out.lua"),
            ("src/deep/game.lua", "game.out.lua"),
            ("a.tar.gz", "a.tar.out.gz"),
            ("Makefile", "Makefile.out"),
            (".profile", ".profile.out"),
            ("x.", "x..out"),
            ("", "result.out"),
            ("..", "result.out"),
            ("..\\..\\boot.ini", "boot.out.ini"),
            ("a\u{1b}[2Jb.lua", "a_[2Jb.out.lua"),
            ("lua.\u{202e}gnp", "lua.out._gnp"),
        ] {
            assert_eq!(result_of(name), result, "{name:?}");
        }
    }

    #[test]
    fn names_that_are_not_text_are_kept_harmless() {
        let name = clean(Path::new(OsStr::from_bytes(b"a\xff\n.lua")), "file");
        assert_eq!(name, "a\u{fffd}_.lua");
    }

    proptest! {
        #[test]
        fn a_result_stays_in_its_folder(name in any::<String>()) {
            let result = result_of(&name);
            prop_assert!(!result.contains(['/', '\\', '\0']));
            prop_assert!(!result.chars().any(sanitize::is_dangerous));
            prop_assert!(!result.is_empty() && result != "." && result != "..");
            prop_assert!(result.len() + ".part.json".len() <= 255);
            prop_assert_eq!(Path::new(&result).components().count(), 1);
        }
    }
}
