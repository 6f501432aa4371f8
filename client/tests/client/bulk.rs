//! Memory stays flat however large the file is (UPL-02).

use std::fs::File;
use std::io::Read as _;
use std::process::Child;

use crate::bench::{Bench, finish};
use crate::fake::Fake;

/// Peak resident memory that no transfer may exceed.
const BOUND_KIB: u64 = 64 << 10;

/// Mebibytes moved; more by GLOVEBOX_TEST_BULK_MIB for a measurement.
fn mebibytes() -> u64 {
    std::env::var("GLOVEBOX_TEST_BULK_MIB").map_or(128, |text| text.parse().unwrap())
}

/// The kernel's high-water mark, read until the process ends.
fn watch_peak(child: &Child) -> std::thread::JoinHandle<u64> {
    let path = format!("/proc/{}/status", child.id());
    std::thread::spawn(move || {
        let mut peak = 0;
        loop {
            let mut text = String::new();
            let read = File::open(&path).and_then(|mut file| file.read_to_string(&mut text));
            let mark = text.lines().find_map(|line| line.strip_prefix("VmHWM:"));
            match (read, mark) {
                (Ok(_), Some(mark)) => {
                    let kib: u64 = mark.trim().trim_end_matches(" kB").parse().unwrap();
                    peak = peak.max(kib);
                }
                _ => return peak, // it has ended: a zombie has no memory
            }
            std::thread::yield_now();
        }
    })
}

#[expect(clippy::print_stdout, reason = "the figures are what a measurement is run for")]
fn measured(bench: &Bench, args: &[&str]) -> (String, u64) {
    let begun = std::time::Instant::now();
    let child = bench.start(args);
    let watch = watch_peak(&child);
    let ran = finish(child).code(0);
    let peak = watch.join().unwrap();
    let rate = u128::from(mebibytes()) * 1000 / begun.elapsed().as_millis();
    println!("{}: peak {peak} KiB, {rate} MiB/s with start and hash", args[0]);
    (ran.line().to_owned(), peak)
}

#[test]
fn memory_is_flat_while_files_move() {
    for fake in [Fake::start(), Fake::http1()] {
        let bench = Bench::at(fake);
        let file = File::create(bench.path("bulk.bin")).unwrap();
        file.set_len(mebibytes() << 20).unwrap();
        let (id, sending) = measured(&bench, &["submit", "bulk.bin"]);
        let (path, fetching) = measured(&bench, &["fetch", &id]);
        assert_eq!(bench.path(path).metadata().unwrap().len(), mebibytes() << 20);
        assert!(sending > 0 && sending < BOUND_KIB, "{sending} KiB while sending");
        assert!(fetching > 0 && fetching < BOUND_KIB, "{fetching} KiB while fetching");
    }
}
