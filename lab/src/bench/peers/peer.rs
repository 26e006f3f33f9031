//! Parts common to all peers: their search, start and recognition.

use std::ffi::OsStr;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::Command;

use rustix::process::{Resource, getrlimit};

use crate::bench::process::{self, Running};
use crate::bench::subject::{Address, Proof, Subject, SubjectError, Wish};
use crate::limits;

/// Folders of servers that are not on a user's PATH; the last is where `benches/peers.sh` puts
/// Envoy.
const USUAL_PLACES: [&str; 6] =
    ["/usr/local/sbin", "/usr/sbin", "/sbin", "/usr/local/bin", "/opt/homebrew/bin", "target/peers/bin"];

/// Time for which a peer keeps a reply, in seconds.
pub(super) const TTL_S: u64 = 3600;

/// A measurement has no use for more open files than this.
const MOST_OPEN_FILES: u64 = 1 << 16;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Found {
    pub(super) program: PathBuf,
    pub(super) version: String,
}

/// Address of a peer, and its upstream.
#[derive(Clone, Debug)]
pub(super) struct Front {
    pub(super) listen: Address,
    /// Speaks HTTP/2 with prior knowledge, and nothing else.
    pub(super) h2c: bool,
    pub(super) upstream: SocketAddr,
}

/// Looks for `program` and asks it for its version with `argument`; `read` extracts the version
/// from the output.
pub(super) fn find(
    program: &str,
    argument: &str,
    read: impl Fn(&str) -> Option<&str>,
) -> Result<Found, SubjectError> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let places = std::env::split_paths(&path).chain(USUAL_PLACES.iter().map(PathBuf::from));
    let Some(found) = look(program, places) else {
        let instead = "run benches/peers.sh, which installs all peers".to_owned();
        return Err(SubjectError::Missing { program: program.to_owned(), instead });
    };
    let version = version(&found, argument, read).map_err(|why| SubjectError::Failed {
        program: program.to_owned(),
        why,
        log: format!("`{} {argument}`", found.display()),
    })?;
    Ok(Found { program: found, version })
}

fn version(program: &Path, argument: &str, read: impl Fn(&str) -> Option<&str>) -> Result<String, String> {
    let said = Command::new(program).arg(argument).output().map_err(|error| error.to_string())?;
    // Two of the four write it to stderr.
    let text = [said.stdout, said.stderr].concat();
    let text = String::from_utf8_lossy(&text);
    let version = read(&text).filter(|version| version.starts_with(|first: char| first.is_ascii_digit()));
    version.map(str::to_owned).ok_or_else(|| "it does not say its version".to_owned())
}

/// The first executable file of that name, as an absolute path, because the process runs in a
/// folder of its own.
fn look(program: &str, mut places: impl Iterator<Item = PathBuf>) -> Option<PathBuf> {
    use std::os::unix::fs::PermissionsExt;
    places.find_map(|place| {
        let file = std::path::absolute(place.join(program)).ok()?;
        let kind = file.metadata().ok()?;
        (kind.is_file() && kind.permissions().mode() & 0o111 != 0).then_some(file)
    })
}

/// The text between `mark` and the next blank, bracket or slash.
pub(super) fn after<'a>(text: &'a str, mark: &str) -> Option<&'a str> {
    text.split_once(mark)?.1.split([' ', '\n', '\r', ')', '/']).next()
}

impl Front {
    /// A front as wished. Its port was free a moment ago; the peers cannot choose one themselves,
    /// since none of them says which one it took.
    pub(super) fn new(name: &str, wish: &Wish) -> Result<Self, SubjectError> {
        let Some(&upstream) = wish.upstreams.first() else {
            return Err(SubjectError::Unable {
                program: name.to_owned(),
                why: "it was given no upstream".to_owned(),
            });
        };
        let listen = if wish.unix { Address::Unix(wish.socket()) } else { Address::Tcp(process::free_port()?) };
        Ok(Self { listen, h2c: wish.h2c, upstream })
    }

    /// Address as text; a socket's path gets `prefix`.
    pub(super) fn listen(&self, prefix: &str) -> String {
        match &self.listen {
            Address::Tcp(address) => address.to_string(),
            Address::Unix(path) => format!("{prefix}{}", path.display()),
        }
    }
}

/// Writes a peer's configuration into the wish's folder.
pub(super) fn write(wish: &Wish, file: &str, text: &str) -> Result<PathBuf, SubjectError> {
    let path = wish.folder.join(file);
    match std::fs::write(&path, text) {
        Ok(()) => Ok(path),
        Err(error) => Err(SubjectError::Write { path: path.display().to_string(), error }),
    }
}

impl Found {
    /// Starts it and waits until it answers.
    pub(super) fn run<A: AsRef<OsStr>>(
        &self,
        wish: &Wish,
        front: &Front,
        arguments: impl IntoIterator<Item = A>,
    ) -> Result<Running, SubjectError> {
        let mut running =
            process::start_held(wish.keeper.as_deref(), &self.program, arguments, wish.core, &wish.folder)?;
        running.wait_until(|| answers(&front.listen, front.h2c).then_some(()))?;
        Ok(running)
    }

    pub(super) fn subject(
        self,
        name: &str,
        settings: String,
        proof: Proof,
        front: Front,
        running: Running,
    ) -> Subject {
        let (version, address) = (self.version, front.listen);
        Subject { name: name.to_owned(), version, settings, proof, address, process: Some(running) }
    }
}

/// The HTTP/2 preface and an empty SETTINGS frame; the server's first frame is its own SETTINGS.
const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0";

/// True if an HTTP server answers. The probe is something that each of them refuses or answers by
/// itself (Varnish and HAProxy pass on more than one would think), so that the upstream is not
/// asked and nothing is stored.
fn answers(at: &Address, h2c: bool) -> bool {
    let wait = Some(limits::BENCH_READY_WAIT);
    let start = match at {
        Address::Tcp(address) => TcpStream::connect(address).and_then(|stream| {
            stream.set_read_timeout(wait)?;
            begun(stream, h2c)
        }),
        Address::Unix(path) => UnixStream::connect(path).and_then(|stream| {
            stream.set_read_timeout(wait)?;
            begun(stream, h2c)
        }),
    };
    start.unwrap_or(false)
}

fn begun(mut stream: impl Read + Write, h2c: bool) -> std::io::Result<bool> {
    if h2c {
        let mut frame = [0; 9];
        stream.write_all(PREFACE)?;
        stream.read_exact(&mut frame)?;
        return Ok(frame[3] == 4);
    }
    let mut start = [0; 12];
    stream.write_all(b"BAD\r\n\r\n")?;
    stream.read_exact(&mut start)?;
    Ok(start == *b"HTTP/1.1 400")
}

/// Bytes as whole mebibytes, at least one.
pub(super) fn mebibytes(bytes: u64) -> u64 {
    (bytes >> 20).max(1)
}

/// Number of files that a server may open here, up to what it needs. Servers raise their own limit
/// to this.
pub(super) fn open_files() -> u64 {
    getrlimit(Resource::Nofile).maximum.unwrap_or(MOST_OPEN_FILES).min(MOST_OPEN_FILES)
}

pub(super) fn shown(path: &Path) -> String {
    path.display().to_string()
}

#[cfg(test)]
pub(super) mod tests;
