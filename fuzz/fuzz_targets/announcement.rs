#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let _outcome: Result<(), &str> = nw_fuzz::content_target::announcement(bytes);
});
