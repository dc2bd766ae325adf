//! Changes the attach mode while processes are started. Alone in its process: each child that ends
//! sends a signal, and a pending one keeps the kernel from verifying a program.

#[allow(dead_code, reason = "a part is used")]
#[path = "all/common/mod.rs"]
mod common;

use common::cluster::options;
use common::may_run;
use common::net::{alone, ip};
use nw_kernel::KernelError;
use nw_kernel::balancer::{AttachMode, Balancer};
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};

#[test]
fn mode_changes_while_processes_are_started() {
    if !may_run("balancer, modes while programs are started") {
        return;
    }
    alone(|| {
        ip("link set lo up");
        let mut balancer = Balancer::load(&options()).expect("loaded");
        let done = AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                while !done.load(Ordering::Relaxed) {
                    assert!(Command::new("true").status().expect("true").success());
                }
            });
            for _ in 0..100 {
                assert_eq!(balancer.attach("lo", None).expect("attached"), AttachMode::Generic);
                let error =
                    balancer.attach("lo", Some(AttachMode::Native)).expect_err("not natively");
                if !matches!(error, KernelError::NoDriver { .. }) {
                    done.store(true, Ordering::Relaxed);
                    panic!("{error}");
                }
            }
            done.store(true, Ordering::Relaxed);
        });
    });
}
