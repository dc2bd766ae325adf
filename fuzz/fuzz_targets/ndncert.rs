#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let _outcome: Result<(), &str> = nw_fuzz::ndncert_target::ndncert(bytes);
});
