//! `nw image`: container images of this program, written without a container engine.

use crate::output::{json_line, stdout};
use anyhow::{Context, Result, bail};
use clap::{Args, Subcommand, ValueEnum};
use nw_image::{Format, Image, Reference, build};
use std::collections::BTreeMap;
use std::env;
use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;

#[derive(Debug, Subcommand)]
pub enum ImageCommand {
    /// Write a container image of nw: the stripped binary and the libraries that it needs
    ///
    /// No container engine, registry or root rights are needed. The image runs `nw run` as user
    /// 65532 and has a health check. The same binary and libraries give the same bytes; the
    /// environment variable SOURCE_DATE_EPOCH sets the time in the image, which else is 1970.
    Build(Build),
}

#[derive(Debug, Args)]
pub struct Build {
    /// File or folder for the image; default: namewire-image.tar, with --format oci namewire-image
    #[arg(long, short, value_name = "PATH")]
    pub output: Option<PathBuf>,
    /// Form of the image
    #[arg(long, value_enum, default_value = "docker")]
    pub format: ImageFormat,
    /// Executable to put into the image; default: this program
    #[arg(long, value_name = "PATH")]
    pub binary: Option<PathBuf>,
    /// Name and tag of the image
    #[arg(
        long,
        value_name = "NAME:TAG",
        default_value = concat!("namewire:", env!("CARGO_PKG_VERSION"))
    )]
    pub tag: Reference,
    /// Label to add: KEY=VALUE; may be repeated
    #[arg(long, value_name = "KEY=VALUE", value_parser = label)]
    pub label: Vec<(String, String)>,
    /// Folder that stands for / where libraries are looked up, for a binary of another system
    #[arg(long, value_name = "FOLDER", default_value = "/")]
    pub sysroot: PathBuf,
    /// Print the result as one JSON object
    #[arg(long)]
    pub json: bool,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
pub enum ImageFormat {
    /// One archive, for `docker load`, `podman load` and `ctr images import`
    Docker,
    /// A folder: the OCI image layout
    Oci,
}

fn label(text: &str) -> Result<(String, String), String> {
    let label = text.split_once('=').filter(|(key, _)| !key.is_empty());
    let (key, value) = label.ok_or("give KEY=VALUE")?;
    Ok((key.to_owned(), value.to_owned()))
}

/// Runs `nw image …`.
pub fn image(action: &ImageCommand) -> Result<ExitCode> {
    let ImageCommand::Build(args) = action;
    let (format, default) = match args.format {
        ImageFormat::Docker => (Format::Docker, "namewire-image.tar"),
        ImageFormat::Oci => (Format::Oci, "namewire-image"),
    };
    let output = args.output.clone().unwrap_or_else(|| default.into());
    let binary = match &args.binary {
        Some(binary) => binary.clone(),
        None => env::current_exe().context("can't find this program; name it with --binary")?,
    };
    let image = Image {
        binary,
        sysroot: args.sysroot.clone(),
        reference: args.tag.clone(),
        labels: labels(&args.label),
        created_s: source_date()?,
    };
    let summary = build(&image, format, &output)?;
    if args.json {
        json_line(&summary)?;
        return Ok(ExitCode::SUCCESS);
    }
    let [compressed, unpacked] = [summary.compressed_bytes, summary.unpacked_bytes].map(mebibytes);
    let (file, name, machine) = (output.display(), &summary.reference, summary.architecture);
    let mut out = stdout();
    writeln!(out, "{file}: {name} for {machine}")?;
    writeln!(out, "{compressed} MiB compressed, {unpacked} MiB unpacked, {}", summary.digest)?;
    if format == Format::Docker {
        writeln!(out, "load it with: docker load -i {file}")?;
    }
    Ok(ExitCode::SUCCESS)
}

fn mebibytes(bytes: u64) -> String {
    format!("{:.1}", bytes as f64 / f64::from(1 << 20))
}

/// Returns the standard labels, and those of the command line, which win.
fn labels(added: &[(String, String)]) -> BTreeMap<String, String> {
    let standard = [
        ("title", "Namewire"),
        ("description", "Router for Named Data Networking, and its tools"),
        ("version", env!("CARGO_PKG_VERSION")),
        ("licenses", env!("CARGO_PKG_LICENSE")),
        ("source", env!("CARGO_PKG_REPOSITORY")),
    ];
    let standard =
        standard.map(|(key, value)| (format!("org.opencontainers.image.{key}"), value.to_owned()));
    standard.into_iter().chain(added.iter().cloned()).collect()
}

/// Returns the time for reproducible builds: SOURCE_DATE_EPOCH, 0 if it is not set.
fn source_date() -> Result<u64> {
    const YEAR_9999_S: u64 = 253_402_300_799;
    let Some(text) = env::var_os("SOURCE_DATE_EPOCH") else { return Ok(0) };
    let time_s = text.to_str().and_then(|text| text.parse().ok());
    match time_s.filter(|time_s| *time_s <= YEAR_9999_S) {
        Some(time_s) => Ok(time_s),
        None => bail!(
            "SOURCE_DATE_EPOCH is {text:?}; it must be a number of seconds since 1970, such as \
             that of `git log -1 --format=%ct`"
        ),
    }
}
