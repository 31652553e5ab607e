//! The help of the console: the names of methods, or the parameters, the result and an example of
//! one method. All of it comes from the definitions of the methods.

use std::fmt::Write as _;

use rpc::openrpc::example;

use super::editor::COMMANDS;

/// The help for `typed`: one method in full if `typed` is its name or its alias, otherwise the
/// names that begin with `typed`. `names` are the methods of the node.
pub(super) fn help(names: &[String], typed: &str) -> String {
    if let Some(text) = method_help(typed) {
        return text;
    }
    let prefix = typed.replacen('.', "_", 1);
    let found: Vec<_> = names.iter().filter(|name| name.starts_with(&prefix)).collect();
    if found.is_empty() {
        return format!("no method begins with {typed:?}");
    }
    let mut text: String = found
        .iter()
        .map(|name| name.replacen('_', ".", 1) + "\n")
        .collect();
    if prefix.is_empty() {
        // Writing to a string does not fail.
        let _ = write!(
            text,
            "commands of the console: {}\n\
             parameters follow the name, separated by spaces: mc.getBalance 0x70997970c51812dc3a010c7d01b50e0d17dc79c8 latest\n\
             help and a name: the parameters, the result and an example of a method",
            COMMANDS.join(", ")
        );
    }
    text.trim_end().to_owned()
}

/// Summary, parameters, result and example of a method; `None` if there is no method of this name.
fn method_help(typed: &str) -> Option<String> {
    let name = typed.replacen('.', "_", 1);
    let methods = rpc::methods::all();
    let method = methods.iter().map(rpc::Method::info).find(|method| {
        method.name() == name || method.name() == typed || method.alias().as_deref() == Some(&name)
    })?;
    let signature = method.signature();
    let shown = typed.replacen('_', ".", 1);
    let mut text = shown.clone();
    for param in &signature.params {
        let _ = match param.is_required {
            true => write!(text, " {}", param.name),
            false => write!(text, " [{}]", param.name),
        };
    }
    let _ = writeln!(text, "\n{}", method.summary());
    if let Some(alias) = method.alias() {
        let _ = writeln!(text, "also: {alias}");
    }
    for param in &signature.params {
        let optional = if param.is_required { "" } else { ", optional" };
        let _ = writeln!(text, "  {}: {}{optional}", param.name, param.wire_type);
    }
    let _ = writeln!(text, "result: {}", signature.result);
    if let Some(example) = example(method.name()) {
        let params = example["params"].as_array().into_iter().flatten();
        let params: String = params.map(|param| format!(" {param}")).collect();
        let _ = writeln!(text, "example: {shown}{params}\n  {}", example["result"]);
    }
    Some(text.trim_end().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_method_is_described_with_an_example() {
        for typed in ["mc.getBalance", "mc_getBalance", "eth.getBalance"] {
            let text = help(&[], typed);
            for words in [
                " address [block]\nReturns the balance of an account",
                "address: DATA20\n",
                "block: BLOCKREF, optional",
                "result: QUANTITY\n",
                "example: ",
                "\"0xf39fd6e51aad88f6f4ce6ab8827279cfffb92266\" \"0x3\"\n  \"0x",
            ] {
                assert!(text.contains(words), "{typed}: {words:?} in {text}");
            }
        }
        let names = ["net_version", "mc_call"].map(str::to_owned);
        assert_eq!(help(&names, "ne"), "net.version");
        assert_eq!(help(&names, "x"), "no method begins with \"x\"");
        assert!(help(&names, "").starts_with("net.version\nmc.call\ncommands of the console: help"));
    }
}
