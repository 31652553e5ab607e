//! Prints the results as a table.

use std::fmt;

use crate::load::Sample;
use crate::peers::RunningServer;

/// The results of a call under one load.
#[derive(Debug)]
pub(crate) struct Row {
    pub(crate) call: String,
    pub(crate) connections: usize,
    pub(crate) batch: usize,
    pub(crate) node: Sample,
    pub(crate) anvil: Option<Sample>,
    pub(crate) bare: Sample,
    /// Rates of the further nodes divided by the rate of `node`.
    pub(crate) variants: Vec<f64>,
}

impl fmt::Display for Row {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            call,
            connections,
            batch,
            node,
            anvil,
            bare,
            variants,
        } = self;
        let milliseconds = |time: std::time::Duration| time.as_secs_f64() * 1e3;
        write!(
            out,
            "| {call} | {connections} | {batch} | {:.0} | {:.2} | {:.2} |",
            node.rate,
            milliseconds(node.p50),
            milliseconds(node.p99)
        )?;
        match anvil {
            Some(anvil) => write!(
                out,
                " {:.0} | {:.2} | {:.2} |",
                anvil.rate,
                milliseconds(anvil.p99),
                node.rate / anvil.rate
            )?,
            None => write!(out, " – | – | – |")?,
        }
        write!(out, " {:.0} | {:.2} |", bare.rate, node.rate / bare.rate)?;
        variants.iter().try_for_each(|ratio| write!(out, " {ratio:.3} |"))
    }
}

/// Prints all rows, and the memory of the servers after the load. `variants` are the names of the
/// further nodes.
pub(crate) fn print(rows: &[Row], variants: &[&str], node: &RunningServer, anvil: Option<&RunningServer>) {
    let names: String = variants.iter().map(|name| format!(" {name} ÷ vnode |")).collect();
    println!(
        "| call | connections | batch | vnode /s | p50 ms | p99 ms | anvil /s | p99 ms | vnode ÷ anvil | bare /s | vnode ÷ bare |{names}"
    );
    println!(
        "|---|---|---|---|---|---|---|---|---|---|---|{}",
        "---|".repeat(variants.len())
    );
    for row in rows {
        println!("{row}");
    }
    for server in [Some(node), anvil].into_iter().flatten() {
        if let Some(mebibytes) = server.memory() {
            println!("\nmemory of {}: {mebibytes} MiB", server.name());
        }
    }
}
