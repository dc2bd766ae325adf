//! `nw graph`: checks, draws, tests, splits and runs graphs of elements.

mod run;

use crate::output;
use crate::output::stdout;
use anyhow::{Context, Result, anyhow, bail};
use clap::{Args, Subcommand, ValueEnum};
use nw_api::config::file::{TEXT_MAX, read_text};
use nw_graph::{GraphFile, Problem, draw, graph_test, help};
use nw_service::LinkKind;
use serde::Serialize;
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

#[derive(Debug, Subcommand)]
pub enum GraphCommand {
    /// Check a graph, and report each mistake with its line and a remedy
    Check {
        /// Graph files
        #[arg(required = true)]
        files: Vec<PathBuf>,
        /// Print one JSON object per file: file, problems
        #[arg(long)]
        json: bool,
    },
    /// Draw a graph on the terminal, as SVG, or as Mermaid text
    ///
    /// A graph with mistakes is drawn as far as it can be parsed.
    Draw {
        /// Graph file
        file: PathBuf,
        /// Write SVG to this file; - is standard output
        #[arg(long, value_name = "FILE", conflicts_with = "mermaid")]
        svg: Option<PathBuf>,
        /// Print Mermaid text, for Markdown pages for example
        #[arg(long)]
        mermaid: bool,
    },
    /// Run a graph as a router, until Ctrl-C
    ///
    /// Opens the faces of the graph and passes packets through its elements. SIGHUP reloads the
    /// file and changes the running graph while packets flow; a file with mistakes changes nothing.
    Run(run::Run),
    /// Split a graph into services: one graph file each, connected by links
    ///
    /// Each element belongs to one service. A face belongs to the service of the element that
    /// receives its packets, unless a service lists it. Run each file with `nw service run --graph
    /// FILE`, in any order.
    #[command(alias = "cut")]
    Split {
        /// Graph file
        file: PathBuf,
        /// Folder for the files and for the sockets of the links; created if missing
        #[arg(long, value_name = "FOLDER")]
        into: PathBuf,
        /// Name of a service, and its elements and faces: NAME=ELEMENT,FACE,…
        #[arg(long = "service", value_name = "NAME=MEMBERS", required = true)]
        services: Vec<String>,
        /// Kind of the links: unix sockets, or shared memory
        #[arg(long, value_name = "KIND", default_value = "unix")]
        links: Links,
    },
    /// Run the tests in graph files
    ///
    /// No socket is opened, and time is virtual. The exit status is 1 if a test fails.
    Test {
        /// Graph files
        #[arg(required = true)]
        files: Vec<PathBuf>,
        /// Only tests whose name contains this text
        #[arg(long, value_name = "TEXT")]
        only: Option<String>,
        /// Print one JSON object per test: file, line, test, passed, error
        #[arg(long)]
        json: bool,
    },
    /// List all elements, or explain one: ports, parameters, contract
    Help(Help),
}

#[derive(Clone, Copy, Debug, ValueEnum)]
pub enum Links {
    Unix,
    Shm,
}

#[derive(Debug, Args)]
pub struct Help {
    /// Name of the element
    pub element: Option<String>,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

/// Runs `nw graph …`.
pub fn graph(action: &GraphCommand) -> Result<ExitCode> {
    match action {
        GraphCommand::Check { files, json } => check(files, *json),
        GraphCommand::Draw { file, svg, mermaid } => draw_file(file, svg.as_deref(), *mermaid),
        GraphCommand::Split { file, into, services, links } => split(file, into, services, *links),
        GraphCommand::Run(args) => run::run(args),
        GraphCommand::Test { files, only, json } => test(files, only.as_deref(), *json),
        GraphCommand::Help(args) => explain(args),
    }
}

fn text_of(path: &Path) -> Result<String> {
    Ok(read_text(path, TEXT_MAX)?)
}

/// Reads a graph that can run.
pub(crate) fn load(path: &Path) -> Result<GraphFile> {
    Ok(GraphFile::read(&path.display().to_string(), &text_of(path)?)?)
}

#[derive(Serialize)]
struct ProblemLine<'a> {
    line: u32,
    column: u32,
    what: &'a str,
    remedy: &'a str,
}

#[derive(Serialize)]
struct FileLine<'a> {
    file: String,
    good: bool,
    problems: Vec<ProblemLine<'a>>,
}

fn check(files: &[PathBuf], json: bool) -> Result<ExitCode> {
    let mut with_mistakes = Vec::new();
    for path in files {
        let file = path.display().to_string();
        let read = GraphFile::read(&file, &text_of(path)?);
        if json {
            let problems: &[Problem] =
                read.as_ref().err().map_or(&[], |problems| &problems.problems);
            let problems = problems
                .iter()
                .map(|problem| ProblemLine {
                    line: problem.position.line,
                    column: problem.position.column,
                    what: &problem.message,
                    remedy: &problem.remedy,
                })
                .collect();
            output::json_line(&FileLine { file: file.clone(), good: read.is_ok(), problems })?;
        }
        match read {
            Ok(_) if json => {}
            Ok(found) => outln!("{file} is a graph that can run: {}", summary(&found))?,
            Err(problems) => with_mistakes.push(problems),
        }
    }
    if with_mistakes.is_empty() {
        return Ok(ExitCode::SUCCESS);
    }
    if json {
        return Ok(ExitCode::FAILURE);
    }
    let texts: Vec<String> = with_mistakes.iter().map(ToString::to_string).collect();
    Err(anyhow!(texts.join("\n")))
}

fn summary(file: &GraphFile) -> String {
    [
        output::count(file.graph.faces.len() as u64, "face"),
        output::count(file.graph.nodes.len() as u64, "element"),
        output::count(file.graph.connections.len() as u64, "connection"),
        output::count(file.tests.len() as u64, "test"),
    ]
    .join(", ")
}

fn split(path: &Path, into: &Path, services: &[String], links: Links) -> Result<ExitCode> {
    let file = load(path)?;
    let parse = |text: &String| {
        let (name, members) =
            text.split_once('=').filter(|(name, _)| !name.is_empty()).with_context(|| {
                format!("{text:?} is not a service of the form NAME=ELEMENT,FACE,…")
            })?;
        let is_allowed = |c: char| c.is_ascii_alphanumeric() || c == '_';
        if !name.chars().all(is_allowed) {
            bail!("{name:?} is not a service name: use letters, digits and _");
        }
        Ok((name.to_owned(), members.split(',').map(str::trim).map(str::to_owned).collect()))
    };
    let services: Vec<(String, Vec<String>)> = services.iter().map(parse).collect::<Result<_>>()?;
    let folder =
        std::path::absolute(into).with_context(|| format!("can't find {}", into.display()))?;
    let kind = match links {
        Links::Unix => LinkKind::Unix,
        Links::Shm => LinkKind::SharedMemory,
    };
    let parts = nw_service::partition(&file.graph, &services, &folder, kind)?;
    fs::create_dir_all(into).with_context(|| format!("can't create {}", into.display()))?;
    for part in parts {
        let to = folder.join(format!("{}.graph", part.name));
        let text =
            format!("# A part of {}.\n{}", path.display(), nw_graph::language::write(&part.graph));
        fs::write(&to, text).with_context(|| format!("can't write {}", to.display()))?;
        outln!("nw service run --graph {}", to.display())?;
    }
    Ok(ExitCode::SUCCESS)
}

fn draw_file(path: &Path, svg: Option<&Path>, mermaid: bool) -> Result<ExitCode> {
    let (file, problems) = GraphFile::examine(&text_of(path)?);
    // A network is drawn as its services; on a terminal its elements follow.
    let drawn = match (svg, mermaid) {
        (Some(_), _) => draw::services_svg(&file).unwrap_or_else(|| draw::svg(&file.graph))?,
        (None, true) => draw::services_mermaid(&file).unwrap_or_else(|| draw::mermaid(&file.graph)),
        (None, false) => match draw::services_terminal(&file) {
            Some(services) => format!("{}\n{}", services?, draw::terminal(&file.graph)?),
            None => draw::terminal(&file.graph)?,
        },
    };
    match svg {
        Some(to) if to != Path::new("-") => {
            fs::write(to, drawn).with_context(|| format!("can't write {}", to.display()))?;
        }
        _ => stdout().write_all(drawn.as_bytes())?,
    }
    if !problems.is_empty() {
        let count = problems.len();
        let path = path.display();
        bail!(
            "the graph has {count} mistakes and is drawn as far as it can be parsed: see `nw graph \
             check {path}`"
        );
    }
    Ok(ExitCode::SUCCESS)
}

#[derive(Serialize)]
struct TestLine<'a> {
    file: &'a str,
    line: u32,
    test: &'a str,
    passed: bool,
    error: Option<String>,
}

fn test(files: &[PathBuf], only: Option<&str>, json: bool) -> Result<ExitCode> {
    let (mut passed, mut failed) = (0, 0);
    for path in files {
        let file = load(path)?;
        let name = path.display().to_string();
        let is_selected = |test: &&nw_graph::Test| only.is_none_or(|part| test.name.contains(part));
        for test in file.tests.iter().filter(is_selected) {
            let result = graph_test::run_test(&file.graph, test);
            *(if result.is_ok() { &mut passed } else { &mut failed }) += 1;
            let (line, error) =
                (test.position.line, result.err().map(|failure| failure.to_string()));
            if json {
                let is_passed = error.is_none();
                output::json_line(&TestLine {
                    file: &name,
                    line,
                    test: &test.name,
                    passed: is_passed,
                    error,
                })?;
                continue;
            }
            match error {
                None => outln!("passed  {name}:{line}: {}", test.name)?,
                Some(error) => {
                    outln!(
                        "FAILED  {name}:{line}: {}\n        {}",
                        test.name,
                        error.replace('\n', "\n        ")
                    )?;
                }
            }
        }
    }
    if !json {
        outln!("{passed} passed, {failed} failed")?;
    }
    match (passed + failed, only) {
        (0, Some(part)) => bail!("no test name contains {part:?}"),
        (0, None) => {
            bail!("there are no tests: add test \"expected behaviour\" {{ … }} to the file")
        }
        _ if failed > 0 => Ok(ExitCode::FAILURE),
        _ => Ok(ExitCode::SUCCESS),
    }
}

fn explain(args: &Help) -> Result<ExitCode> {
    let entry = args.element.as_deref().map(|name| help::find(name).map_err(|text| anyhow!(text)));
    match (entry.transpose()?, args.json) {
        (None, true) => help::elements().try_for_each(|element| output::json_line(&element))?,
        (None, false) => stdout().write_all(help::list().as_bytes())?,
        (Some(entry), true) => output::json_line(&help::element(entry))?,
        (Some(entry), false) => stdout().write_all(help::of(entry).as_bytes())?,
    }
    Ok(ExitCode::SUCCESS)
}
