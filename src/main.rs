//! The program: arguments in, exit code out.

use std::process::ExitCode;

fn main() -> ExitCode {
    // One TLS provider for all clients, before any of them is made. It can only be there already.
    let _ = rustls::crypto::aws_lc_rs::default_provider().install_default();
    megamon::cli::execute(std::env::args_os())
}
