//! Where the server, its trust anchor, the token and this client's own files
//! are: flags first, then environment, then the XDG defaults.

use std::env;
use std::path::PathBuf;

use reqwest::Url;

use crate::cli::Global;
use crate::failure::{Failure, Result};
use crate::sanitize;

/// The validated address of a server; always https, never with credentials.
#[derive(Clone, Debug)]
pub(crate) struct Server {
    base: Url,
}

impl Server {
    /// Checks the address given by `--url` or GLOVEBOX_URL (API-06: https only).
    pub(crate) fn from_flags(flags: &Global) -> Result<Self> {
        let Some(text) = flags.url.as_deref().filter(|text| !text.is_empty()) else {
            return Err(Failure::usage("the server's address is not known")
                .hint("give --url https://HOST:8443 or set GLOVEBOX_URL"));
        };
        Self::parse(text)
    }

    pub(crate) fn parse(text: &str) -> Result<Self> {
        // The text may hold a password by mistake, so no error repeats it.
        let refuse = |what: &str| {
            Failure::usage(format!("cannot use the server's address: {what}"))
                .hint("give --url https://HOST:8443")
        };
        let mut base = Url::parse(text).map_err(|_| refuse("it is not a url"))?;
        match base.scheme() {
            "https" => {}
            "http" => {
                return Err(refuse("http would show the token and the file to the network"));
            }
            _ => return Err(refuse("its scheme is not https")),
        }
        if base.host_str().is_none_or(str::is_empty) {
            return Err(refuse("it names no host"));
        }
        if !base.username().is_empty() || base.password().is_some() {
            return Err(refuse("it holds a login; use 'glovebox login' instead"));
        }
        if base.query().is_some() || base.fragment().is_some() {
            return Err(refuse("it has a query or fragment"));
        }
        if !base.path().ends_with('/') {
            let path = format!("{}/", base.path());
            base.set_path(&path);
        }
        Ok(Self { base })
    }

    /// The address of `path`, which is one of this program's own constants
    /// filled with UUIDs at most.
    pub(crate) fn at(&self, path: &str) -> Url {
        let mut url = self.base.clone();
        let joined = format!("{}{path}", url.path());
        url.set_path(&joined);
        url
    }

    /// How the server is named in messages and in the journal.
    pub(crate) fn name(&self) -> &str {
        self.base.as_str().trim_end_matches('/')
    }

    /// Host and port as one file name.
    fn file_name(&self) -> String {
        let host = self.base.host_str().unwrap_or_default();
        let host: String = host
            .chars()
            .map(|c| if c.is_ascii_alphanumeric() || matches!(c, '.' | '-') { c } else { '_' })
            .collect();
        format!("{host}_{}", self.base.port_or_known_default().unwrap_or_default())
    }
}

/// The token file: the named one, or one per server, so that a token is never
/// sent to a server that did not issue it.
pub(crate) fn token_file(flags: &Global, server: &Server) -> Result<PathBuf> {
    match &flags.token_file {
        Some(path) if !path.as_os_str().is_empty() => Ok(path.clone()),
        _ => Ok(xdg("XDG_CONFIG_HOME", ".config")?.join("tokens").join(server.file_name())),
    }
}

/// The folder of the journal of submitted jobs.
pub(crate) fn journal_dir() -> Result<PathBuf> {
    Ok(xdg("XDG_STATE_HOME", ".local/state")?.join("jobs"))
}

/// An XDG base folder of this program. Relative values are ignored, as the
/// XDG specification demands.
fn xdg(variable: &str, below_home: &str) -> Result<PathBuf> {
    let absolute = |name: &str| env::var_os(name).map(PathBuf::from).filter(|p| p.is_absolute());
    absolute(variable)
        .or_else(|| absolute("HOME").map(|home| home.join(below_home)))
        .map(|base| base.join("glovebox"))
        .ok_or_else(|| {
            Failure::usage("cannot tell where to keep files: no home directory is known")
                .hint(format!("set HOME or {}", sanitize::line(variable)))
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_plain_https_addresses_pass() {
        for wrong in [
            "http://localhost:8443",
            "ftp://localhost",
            "localhost:8443",
            "https://",
            "https://ada:pw@localhost",
            "https://localhost/?x=1",
            "https://localhost/#x",
            "",
        ] {
            let failure = Server::parse(wrong).unwrap_err();
            assert_eq!(failure.exit, crate::exit::Exit::Usage, "{wrong}");
            assert!(failure.hint.is_some());
            assert!(!failure.message.contains("pw"));
        }
    }

    #[test]
    fn paths_are_joined_below_the_base() {
        for (base, url) in [
            ("https://h:8443", "https://h:8443/api/v1/jobs"),
            ("https://h:8443/", "https://h:8443/api/v1/jobs"),
            ("https://h/box", "https://h/box/api/v1/jobs"),
        ] {
            assert_eq!(Server::parse(base).unwrap().at("api/v1/jobs").as_str(), url);
        }
    }

    #[test]
    fn token_files_differ_by_server() {
        let name = |text| Server::parse(text).unwrap().file_name();
        assert_eq!(name("https://h:8443"), "h_8443");
        assert_eq!(name("https://h"), "h_443");
        assert_eq!(name("https://[::1]:8443"), "___1__8443");
    }
}
