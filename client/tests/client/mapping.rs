//! `tests/requirements.tsv` says which requirement a test proves. Checked both
//! ways: each of its lines names a test that exists, and each test of this
//! binary has a line ("# NAME" where it proves no requirement).

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::Command;

fn mapping() -> BTreeMap<String, String> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/requirements.tsv");
    let mut rows = BTreeMap::new();
    for line in fs::read_to_string(path).unwrap().lines() {
        let (test, ids) = match line.strip_prefix("# ") {
            Some(test) => (test, ""),
            None => line.split_once('\t').expect("a tab in every line"),
        };
        assert!(rows.insert(test.to_owned(), ids.to_owned()).is_none(), "{test} is there twice");
    }
    rows
}

/// The tests of this binary, as libtest prints them.
fn own_tests() -> Vec<String> {
    let list = Command::new(std::env::current_exe().unwrap()).arg("--list").output().unwrap();
    let text = String::from_utf8(list.stdout).unwrap();
    text.lines().filter_map(|line| line.strip_suffix(": test")).map(str::to_owned).collect()
}

/// "transfer::part::tests::name" is `fn name` in src/transfer/part.rs, after
/// an attribute that makes it a test.
fn unit_test_exists(test: &str) -> bool {
    let Some((module, name)) = test.split_once("::tests::") else { return false };
    let path = format!("src/{}.rs", module.replace("::", "/"));
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(path);
    let Ok(source) = fs::read_to_string(path) else { return false };
    let lines: Vec<&str> = source.lines().map(str::trim).collect();
    lines.windows(2).any(|pair| {
        let test = matches!(pair[0], "#[test]" | "#[tokio::test]");
        test && (pair[1].contains(&format!("fn {name}(")))
    })
}

#[test]
fn every_line_names_a_test_and_every_test_has_a_line() {
    let (mapping, own) = (mapping(), own_tests());
    assert!(own.len() > 50, "the list of tests was read");
    for (test, ids) in &mapping {
        assert!(own.contains(test) || unit_test_exists(test), "no such test: {test}");
        for id in ids.split(',').filter(|_| !ids.is_empty()) {
            let (group, number) = id.split_once('-').unwrap_or_else(|| panic!("{id}: no id"));
            assert!(group.len() == 3 && group.bytes().all(|b| b.is_ascii_uppercase()), "{id}");
            assert!(number.len() == 2 && number.bytes().all(|b| b.is_ascii_digit()), "{id}");
        }
    }
    let missing: Vec<_> = own.iter().filter(|test| !mapping.contains_key(*test)).collect();
    assert!(missing.is_empty(), "no line for {missing:?}");
}
