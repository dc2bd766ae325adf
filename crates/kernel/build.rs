//! Compiles the kernel programs with the distribution's clang. The running kernel is not needed for
//! it.

use std::env;
use std::path::{Path, PathBuf};
use std::process::Command;

const PROGRAMS: &[&str] = &["reuseport", "xdp", "probe", "balancer", "benchmark", "held", "lipsin"];

fn main() {
    println!("cargo:rerun-if-changed=bpf");
    println!("cargo:rerun-if-env-changed=NW_CLANG");
    let clang = env::var("NW_CLANG").unwrap_or_else(|_| "clang".into());
    let out = PathBuf::from(env::var_os("OUT_DIR").expect("cargo sets OUT_DIR"));
    for program in PROGRAMS {
        compile(&clang, program, &out.join(format!("{program}.o")));
    }
}

fn compile(clang: &str, program: &str, object: &Path) {
    let mut command = Command::new(clang);
    // The verifier needs the debug information (`-g`) for global functions. clang's target `bpf`
    // has the host's byte order.
    command.args(["-target", "bpf", "-mcpu=v3", "-O2", "-g", "-Wall", "-Wextra", "-Werror"]);
    // Two stores to different constant offsets must not be merged into one with a computed offset
    // (decision 0021).
    command.args(["-mllvm", "-simplifycfg-sink-common=false"]);
    // Debian and Ubuntu keep `asm/` of the C library in an architecture's directory.
    let arch = env::var("CARGO_CFG_TARGET_ARCH").unwrap_or_default();
    command.arg("-idirafter").arg(format!("/usr/include/{arch}-linux-gnu"));
    command.arg("-c").arg(format!("bpf/{program}.bpf.c")).arg("-o").arg(object);
    match command.status() {
        Ok(status) if status.success() => {}
        Ok(status) => panic!(
            "{clang} could not compile bpf/{program}.bpf.c ({status}); the reason is above. Linux's headers are in \
             the package linux-libc-dev, and clang must be 14 or newer; NW_CLANG selects another one."
        ),
        Err(e) => panic!(
            "the kernel programs are compiled by clang, and {clang} could not be started ({e}): install the package \
             clang (apt-get install clang, or tools/setup build), or select another one with NW_CLANG."
        ),
    }
}
