//! The command line: one file per group of commands, and [`flags`] for options that several share.
//!
//! The first line of a comment here is the short help, the whole comment the long help. Command
//! groups with an implementation folder of their own (`keys`, `sim`, …) declare their options
//! there.

// Help texts contain brackets that are not links.
#![allow(rustdoc::broken_intra_doc_links)]

pub mod cs;
pub mod face;
pub mod flags;
pub mod packet;
pub mod route;
pub mod run;
pub mod strategy;
pub mod tools;
pub mod transfer;

use clap::{Parser, Subcommand};
use std::path::PathBuf;

/// Namewire: a router for Named Data Networking (NDN), and its tools.
#[derive(Debug, Parser)]
#[command(name = "nw", version, max_term_width = 100, arg_required_else_help = true)]
pub struct Arguments {
    #[command(subcommand)]
    pub command: Command,
}

#[derive(Debug, Subcommand)]
pub enum Command {
    /// Run a router
    ///
    /// Without --config it reads the first existing file of $XDG_CONFIG_HOME/namewire/nw.toml
    /// (~/.config/…) and /etc/namewire/nw.toml, else it uses defaults: the standard unix socket of
    /// NDN programs, and UDP and TCP port 6363. SIGHUP reloads the configuration; SIGTERM and
    /// Ctrl-C end the router.
    Run(run::RunArgs),
    /// Publish a file, or standard input, under a name
    ///
    /// Segments are signed when they are first requested, and served until Ctrl-C.
    Put(transfer::Put),
    /// Fetch an object, and write it to standard output or a file
    Cat(transfer::Cat),
    /// Publish values, lines or a file as publications of an item
    ///
    /// Without values and --file each line of standard input is a publication. The node needs
    /// `[pubsub] enabled = true`.
    Pub(crate::pubsub::Pub),
    /// Subscribe to items, and print their publications or write them to files
    Sub(crate::pubsub::Sub),
    /// Show the state of publish/subscribe
    #[command(subcommand)]
    Pubsub(crate::pubsub::PubSubCommand),
    /// Join a sync group: publish lines of standard input, and print those of all members
    ///
    /// Members find out by State Vector Sync (SVS), version 3, which publications exist, and fetch
    /// them. There is no server. Ends with Ctrl-C.
    Sync(crate::sync::SyncArgs),
    /// Measure round-trip times to `nw ping-server`
    Ping(packet::Ping),
    /// Answer `nw ping` under a name
    PingServer(packet::PingServer),
    /// Fetch one Data packet
    Peek(packet::Peek),
    /// Serve one Data packet until it is requested
    Poke(packet::Poke),
    /// Show the state and counters of a router
    Status(tools::StatusArgs),
    /// List, create, update and destroy faces
    #[command(subcommand)]
    Face(face::FaceCommand),
    /// List, add and remove routes
    #[command(subcommand)]
    Route(route::RouteCommand),
    /// List and choose forwarding strategies
    #[command(subcommand)]
    Strategy(strategy::StrategyCommand),
    /// Show, configure and erase the content store
    #[command(subcommand)]
    Cs(cs::CsCommand),
    /// Generate, list, export and import keys
    #[command(subcommand)]
    Key(crate::keys::KeyCommand),
    /// Show, sign, install and export certificates
    #[command(subcommand)]
    Cert(crate::keys::CertCommand),
    /// Show rates of faces and prefixes, tables and drops, updated on the terminal
    ///
    /// Keys: q quits, s changes the sort order, r reverses it, space pauses, arrows scroll.
    Top(crate::observe::Top),
    /// Show how the router forwards an Interest, and why
    Trace(crate::observe::Trace),
    /// Show packets as they are received and sent, or write them to a file for Wireshark
    Tap(crate::observe::Tap),
    /// Show and change the log levels of a running router
    #[command(subcommand)]
    Log(crate::observe::LogCommand),
    /// Open the web page of a running program in a browser, or print its URL
    Open(crate::observe::Open),
    /// Connect the router to a hub: face, routes, certificate, and the prefix of this site
    ///
    /// Without --hub a hub is looked for by multicast and DNS. A failure undoes what was made.
    Join(crate::join::Join),
    /// Undo `nw join`
    Leave(crate::join::Leave),
    /// Print the OpenAPI document of the router's REST interface
    Openapi,
    /// Check, draw, test and run graph files: routers composed of elements
    #[command(subcommand, disable_help_subcommand = true)]
    Graph(crate::graph::GraphCommand),
    /// Run one element, or a part of a graph, as a process of its own, and control such processes
    #[command(subcommand)]
    Service(crate::service::ServiceCommand),
    /// Run a network of services as a graph file describes it: start, change, scale, heal
    #[command(subcommand)]
    Network(crate::network::NetworkCommand),
    /// Make several routers appear as one, behind a kernel balancer
    #[command(subcommand)]
    Balancer(crate::balancer::BalancerCommand),
    /// Generate and answer traffic, and measure latency, rate and loss
    #[command(subcommand)]
    Bench(crate::bench::BenchCommand),
    /// Simulate networks of thousands of routers in virtual time
    #[command(subcommand)]
    Sim(crate::sim::SimCommand),
    /// Build a testbed on this machine from network namespaces: cluster, consumers, producers
    #[command(subcommand)]
    Lab(crate::lab::LabCommand),
    /// Repeat the experiments of published papers, and compare the results
    ///
    /// Each prints statements, the measured number beside the expected one, and whether they hold.
    /// The exit status is 0 if all hold, 1 if one does not, and 9 if the conditions did not allow a
    /// verdict, such as other programs that used the processors. Statements that do not depend on
    /// the machine are judged under any conditions.
    #[command(subcommand)]
    Paper(crate::paper::PaperCommand),
    /// Build container images of this program
    #[command(subcommand)]
    Image(crate::image::ImageCommand),
    /// Find problems of a router and its machine, and print the command that fixes each
    ///
    /// Checks the router's socket, capabilities, ports, buffers, file descriptors, clock, routes,
    /// pools and keys. Works without a running router. Changes nothing.
    Doctor(crate::doctor::Doctor),
    /// Print packets as a tree
    Dissect(tools::Dissect),
    /// Transfer a file through two routers on this machine, then, as root, through a cluster
    Demo(tools::Demo),
    /// Print the default configuration with all options explained, or check a file
    Config(tools::ConfigArgs),
    /// Print shell completions
    Completions {
        /// The shell
        shell: clap_complete::Shell,
    },
    /// Print candidates for the next word, for shell completion scripts
    #[command(hide = true)]
    Complete(tools::CompleteArgs),
    /// Print the manual page, or write all pages into a folder
    Man {
        /// Folder for nw.1, nw-run.1 and so on
        folder: Option<PathBuf>,
    },
}
