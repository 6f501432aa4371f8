//! Escapes text that came from a server or a file name before a terminal, a
//! log or a script sees it.
//!
//! A job's error message, a login or a file name is data somebody else chose.
//! Printed as it is, it could move the cursor, rewrite earlier lines, set the
//! window title, hide itself or read in another order than it is stored.
//! Everything printed by this program therefore passes through here once, at
//! the edge (`Output`), so that no caller can forget it. ARC-01 needs no trust
//! in the server's words.

use std::fmt::Write as _;
use std::io;

use serde::Serialize;
use serde_json::ser::{CompactFormatter, Formatter};

/// Whether a terminal could do anything with `c` but draw it in its place.
pub(crate) fn is_dangerous(c: char) -> bool {
    c.is_control() // C0, DEL, C1
        || matches!(c,
            '\u{00ad}'                  // soft hyphen: invisible
            | '\u{034f}'                // combining grapheme joiner: invisible
            | '\u{061c}'                // arabic letter mark: bidi
            | '\u{115f}'..='\u{1160}'   // hangul fillers: invisible
            | '\u{17b4}'..='\u{17b5}'   // khmer inherent vowels: invisible
            | '\u{180b}'..='\u{180f}'   // mongolian selectors: invisible
            | '\u{200b}'..='\u{200f}'   // zero width, bidi marks
            | '\u{2028}'..='\u{202e}'   // line and paragraph separators, bidi embeddings
            | '\u{2060}'..='\u{206f}'   // word joiner, bidi isolates, deprecated format
            | '\u{3164}'                // hangul filler
            | '\u{fe00}'..='\u{fe0f}'   // variation selectors: invisible, can carry data
            | '\u{feff}'                // zero width no-break space
            | '\u{ffa0}'                // halfwidth hangul filler
            | '\u{fff9}'..='\u{fffb}'   // interlinear annotation
            | '\u{1bca0}'..='\u{1bca3}' // shorthand format controls
            | '\u{1d173}'..='\u{1d17a}' // musical format controls
            | '\u{e0000}'..='\u{e0fff}' // tags and selectors: invisible, can carry data
        )
}

/// Returns `text` on one line with every dangerous character written out as
/// `\n`, `\t`, `\r` or `\u{…}`.
pub(crate) fn line(text: &str) -> String {
    let mut clean = String::with_capacity(text.len());
    for c in text.chars() {
        push(&mut clean, c);
    }
    clean
}

/// Like [`line`], for text a stranger sets the length of: at most `limit`
/// characters of it are kept, and a cut is shown.
pub(crate) fn bounded(text: &str, limit: usize) -> String {
    let mut clean = String::new();
    for (at, c) in text.chars().enumerate() {
        if at == limit {
            clean.push('…');
            break;
        }
        push(&mut clean, c);
    }
    clean
}

/// Like [`line`], for bytes that need not be UTF-8; such bytes become `\xNN`.
pub(crate) fn bytes(raw: &[u8]) -> String {
    let mut clean = String::with_capacity(raw.len());
    for chunk in raw.utf8_chunks() {
        for c in chunk.valid().chars() {
            push(&mut clean, c);
        }
        for byte in chunk.invalid() {
            let _ = write!(clean, "\\x{byte:02x}");
        }
    }
    clean
}

fn push(clean: &mut String, c: char) {
    match c {
        '\n' => clean.push_str("\\n"),
        '\r' => clean.push_str("\\r"),
        '\t' => clean.push_str("\\t"),
        c if is_dangerous(c) => {
            let _ = write!(clean, "\\u{{{:x}}}", u32::from(c));
        }
        c => clean.push(c),
    }
}

/// Serialises `value` as one line of JSON in which dangerous characters are
/// `\uXXXX` escapes: the same value for a parser, harmless in a terminal.
pub(crate) fn json<T: Serialize>(value: &T) -> serde_json::Result<String> {
    let mut raw = Vec::new();
    let mut serializer = serde_json::Serializer::with_formatter(&mut raw, SafeJson);
    value.serialize(&mut serializer)?;
    Ok(String::from_utf8_lossy(&raw).into_owned())
}

/// serde_json escapes C0 only; this escapes the rest of [`is_dangerous`].
struct SafeJson;

impl Formatter for SafeJson {
    fn write_string_fragment<W: ?Sized + io::Write>(
        &mut self,
        writer: &mut W,
        fragment: &str,
    ) -> io::Result<()> {
        let mut from = 0;
        for (at, c) in fragment.char_indices().filter(|(_, c)| is_dangerous(*c)) {
            CompactFormatter.write_string_fragment(writer, &fragment[from..at])?;
            for unit in c.encode_utf16(&mut [0; 2]) {
                write!(writer, "\\u{unit:04x}")?;
            }
            from = at + c.len_utf8();
        }
        CompactFormatter.write_string_fragment(writer, &fragment[from..])
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn ordinary_text_stays() {
        for text in ["game.lua", "игра.lua", "trò chơi.lua", "游戏.lua", "a b\\c\"d'", "émoji 🎮"]
        {
            assert_eq!(line(text), text);
        }
    }

    #[test]
    fn terminal_sequences_are_written_out() {
        let cases = [
            ("\u{1b}[2J\u{1b}]0;pwned\u{7}", "\\u{1b}[2J\\u{1b}]0;pwned\\u{7}"),
            ("a\nb\r\tc", "a\\nb\\r\\tc"),
            ("\u{9b}31m", "\\u{9b}31m"),
            ("\u{7f}", "\\u{7f}"),
            ("gnp.\u{202e}exe", "gnp.\\u{202e}exe"),
            ("a\u{200b}b\u{2066}c\u{feff}", "a\\u{200b}b\\u{2066}c\\u{feff}"),
            ("\u{e0041}", "\\u{e0041}"),
            ("x\u{2028}y", "x\\u{2028}y"),
        ];
        for (hostile, clean) in cases {
            assert_eq!(line(hostile), clean);
        }
    }

    #[test]
    fn bytes_that_are_not_text_are_shown() {
        assert_eq!(bytes(b"a\xff\xc3(\x1b"), "a\\xff\\xc3(\\u{1b}");
    }

    #[test]
    fn a_cut_is_shown() {
        assert_eq!(bounded("abcdef", 3), "abc…");
        assert_eq!(bounded("abc", 3), "abc");
    }

    proptest! {
        #[test]
        fn no_dangerous_character_survives(text in any::<String>()) {
            prop_assert!(!line(&text).chars().any(is_dangerous));
            prop_assert!(!bounded(&text, 20).chars().any(is_dangerous));
        }

        #[test]
        fn no_dangerous_byte_survives(raw in any::<Vec<u8>>()) {
            let clean = bytes(&raw);
            prop_assert!(!clean.chars().any(is_dangerous));
        }

        #[test]
        fn dangerous_ranges_do_not_survive(c in prop_oneof![
            prop::char::range('\u{0}', '\u{1f}'),
            prop::char::range('\u{7f}', '\u{9f}'),
            prop::char::range('\u{200b}', '\u{200f}'),
            prop::char::range('\u{2028}', '\u{202e}'),
            prop::char::range('\u{2060}', '\u{206f}'),
            prop::char::range('\u{e0000}', '\u{e0fff}'),
        ]) {
            let text = ['a', c, 'b'].iter().collect::<String>();
            prop_assert!(!line(&text).contains(c));
            prop_assert!(!json(&text).unwrap().contains(c));
        }

        #[test]
        fn harmless_text_is_left_alone(text in "[a-zA-Z0-9а-яà-ÿạ-ỹ _./\\-]{0,40}") {
            prop_assert_eq!(line(&text), text);
        }

        #[test]
        fn json_is_harmless_and_means_the_same(text in any::<String>()) {
            let written = json(&text).unwrap();
            prop_assert!(!written.chars().any(is_dangerous), "{}", written);
            prop_assert_eq!(serde_json::from_str::<String>(&written).unwrap(), text);
        }
    }
}
