#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let _outcome: Result<(), &str> = nw_fuzz::balancer_target::balancer_config(bytes);
});
