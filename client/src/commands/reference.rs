//! `completion` and `man`: texts made from the command line's own definition,
//! so that they cannot disagree with it.

use clap::CommandFactory as _;
use clap_complete::Shell as Kind;
use clap_mangen::Man as Page;

use crate::cli::{Cli, Completion, Man, Shell};
use crate::failure::{Failure, Result};
use crate::output;

pub(crate) fn completion(args: &Completion) -> Result<()> {
    let kind = match args.shell {
        Shell::Bash => Kind::Bash,
        Shell::Zsh => Kind::Zsh,
        Shell::Fish => Kind::Fish,
    };
    let mut script = Vec::new();
    clap_complete::generate(kind, &mut Cli::command(), "glovebox", &mut script);
    output::raw(&mut script.as_slice())
}

pub(crate) fn man(args: &Man) -> Result<()> {
    let mut page = Vec::new();
    let mut root = Cli::command();
    root.build();
    let command = match &args.command {
        None => root,
        Some(name) => root.find_subcommand(name).cloned().ok_or_else(|| {
            Failure::usage("there is no such command").hint("run 'glovebox --help'")
        })?,
    };
    Page::new(command)
        .render(&mut page)
        .map_err(|cause| Failure::io("write the manual page", &cause))?;
    output::raw(&mut page.as_slice())
}
