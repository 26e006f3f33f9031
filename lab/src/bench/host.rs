//! Host of a run: the machine, which core belongs to whom, a folder for everybody's files, and
//! the harness's own servers. When it is dropped, the folder and its contents are gone.

use std::cell::{Cell, OnceCell};
use std::fs;
use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::{Path, PathBuf};

use nearside::model::time::{Clock, Wall};

use super::process::{self, Running};
use super::product::Product;
use super::regions::Delay;
use super::result::Machine;
use super::subject::{Address, Proof, Subject, SubjectError, Wish};
use crate::limits;

#[derive(Debug)]
pub(crate) struct Host {
    /// This executable, which is also the floor, the regions, and what the services need.
    pub harness: PathBuf,
    /// The binary to measure, if it is not the one beside the harness.
    given: Option<PathBuf>,
    found: OnceCell<Product>,
    /// The core of the measured servers; `None` if they are not pinned.
    pub core: Option<usize>,
    pub own_core: Option<usize>,
    pub machine: Machine,
    folder: Folder,
    folders: Cell<usize>,
}

/// A folder that is removed with its owner.
#[derive(Debug)]
struct Folder(PathBuf);

impl Drop for Folder {
    fn drop(&mut self) {
        // What cannot be removed stays in the machine's folder for temporary files.
        let _ = fs::remove_dir_all(&self.0);
    }
}

#[derive(Debug)]
pub(crate) struct BenchRegions {
    pub addresses: Vec<SocketAddr>,
    /// Runs for as long as these are held.
    _process: Running,
}

impl BenchRegions {
    /// Sends an order to a region ([`super::regions::ORDERS`]) and returns its answer.
    pub(crate) fn order(&self, region: usize, order: &str) -> Result<String, SubjectError> {
        let path = format!("{}{order}", super::regions::ORDERS);
        let asked = TcpStream::connect(self.addresses[region]).and_then(|mut stream| {
            stream.write_all(format!("GET {path} HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n").as_bytes())?;
            stream.set_read_timeout(Some(limits::BENCH_ANSWER_WAIT))?;
            let mut answer = [0; 1024];
            let count = stream.read(&mut answer)?;
            Ok(String::from_utf8_lossy(&answer[..count]).into_owned())
        });
        let answer =
            asked.map_err(|error| SubjectError::Unable { program: "a region".to_owned(), why: error.to_string() })?;
        Ok(answer.rsplit("\r\n\r\n").next().unwrap_or_default().to_owned())
    }

    /// Returns the number of requests that each region has received.
    pub(crate) fn asked(&self) -> Result<Vec<u64>, SubjectError> {
        let regions = 0..self.addresses.len();
        regions.map(|region| Ok(self.order(region, "count")?.parse().unwrap_or(0))).collect()
    }
}

impl Host {
    /// Looks at the machine, and pins this thread to the first core if there are at least two.
    pub(crate) fn new(nearside: Option<PathBuf>) -> Result<Self, SubjectError> {
        let place = std::env::temp_dir();
        sweep(&place);
        let folder = Folder(place.join(format!("{FOLDERS}{}", std::process::id())));
        fs::create_dir_all(&folder.0).map_err(|error| unwritable(&folder.0, error))?;
        let harness = std::env::current_exe().map_err(|error| unwritable(Path::new("/proc/self/exe"), error))?;
        process::raise_open_files();
        let cores = process::cores();
        let held = cores.len() > 1 && process::hold(cores[0]);
        let (own_core, core) = if held { (Some(cores[0]), cores.get(1).copied()) } else { (None, None) };
        let machine = machine(cores.len(), held);
        let (found, folders) = (OnceCell::new(), Cell::default());
        Ok(Self { harness, given: nearside, found, core, own_core, machine, folder, folders })
    }

    /// Returns the measured product, looked for when the first scenario asks.
    pub(crate) fn product(&self) -> Result<&Product, SubjectError> {
        if let Some(found) = self.found.get() {
            return Ok(found);
        }
        let found = Product::find(self.given.as_deref(), &self.harness)?;
        Ok(self.found.get_or_init(|| found))
    }

    pub(crate) fn folder(&self, name: &str) -> Result<PathBuf, SubjectError> {
        let number = self.folders.get();
        self.folders.set(number + 1);
        let folder = self.folder.0.join(format!("{number}-{}", name.replace(' ', "-")));
        fs::create_dir_all(&folder).map_err(|error| unwritable(&folder, error))?;
        Ok(folder)
    }

    /// Returns the settings of a server in front of `regions`.
    pub(crate) fn wish(&self, name: &str, regions: &BenchRegions) -> Result<Wish, SubjectError> {
        let (upstreams, core) = (regions.addresses.clone(), self.core);
        let keeper = Some(self.harness.clone());
        Ok(Wish {
            upstreams,
            core,
            folder: self.folder(name)?,
            unix: false,
            h2c: false,
            keeper,
            cache_bytes: 256 << 20,
        })
    }

    /// Starts regions on the harness's core, because they are not what is measured.
    pub(crate) fn regions(&self, count: usize, delay: Delay) -> Result<BenchRegions, SubjectError> {
        let folder = self.folder("regions")?;
        let mut addresses = Vec::new();
        for _ in 0..count {
            addresses.push(process::free_port()?);
        }
        let mut arguments = vec!["bench".to_owned(), "regions".into(), "--delay".into(), delay.to_string()];
        arguments.extend(addresses.iter().map(ToString::to_string));
        let mut process = process::start(&self.harness, arguments, self.own_core, &folder)?;
        let first = Address::Tcp(addresses[0]);
        process.wait_until(|| super::wire::BenchStream::open(&first).ok())?;
        Ok(BenchRegions { addresses, _process: process })
    }

    pub(crate) fn floor(&self, body_bytes: usize, unix: bool) -> Result<Subject, SubjectError> {
        let folder = self.folder("floor")?;
        let address =
            if unix { Address::Unix(folder.join("listen.sock")) } else { Address::Tcp(process::free_port()?) };
        let mut arguments = vec!["bench".to_owned(), "floor".into(), "--body-bytes".into(), body_bytes.to_string()];
        match &address {
            Address::Tcp(address) => arguments.extend(["--tcp".into(), address.to_string()]),
            Address::Unix(path) => arguments.extend(["--unix".into(), path.display().to_string()]),
        }
        let mut process = process::start(&self.harness, arguments, self.core, &folder)?;
        process.wait_until(|| super::wire::BenchStream::open(&address).ok())?;
        Ok(Subject {
            name: FLOOR.to_owned(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            settings: "one epoll loop, answers from memory, parses nothing".to_owned(),
            proof: Proof::Always,
            address,
            process: Some(process),
        })
    }
}

/// Removes the folders of harnesses that were killed; the processes in those folders ended with
/// them.
fn sweep(place: &Path) {
    for entry in fs::read_dir(place).into_iter().flatten().flatten() {
        let name = entry.file_name();
        let owner = name.to_str().and_then(|name| name.strip_prefix(FOLDERS)?.parse::<u32>().ok());
        if owner.is_some_and(|pid| !Path::new("/proc").join(pid.to_string()).exists()) {
            // A folder of another user is theirs to remove.
            let _ = fs::remove_dir_all(entry.path());
        }
    }
}

/// The prefix of every harness's folder; the process id follows.
const FOLDERS: &str = "nearside-bench-";

pub(super) const FLOOR: &str = "bare responder";

/// Writes a file of a subject.
pub(super) fn write(path: &Path, text: &str) -> Result<(), SubjectError> {
    fs::write(path, text).map_err(|error| unwritable(path, error))
}

fn unwritable(path: &Path, error: io::Error) -> SubjectError {
    SubjectError::Write { path: path.display().to_string(), error }
}

fn machine(cores: usize, pinned: bool) -> Machine {
    let cpus = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let cpu = cpus.lines().find_map(|line| line.strip_prefix("model name")?.split_once(": "));
    let cpu = cpu.map_or_else(|| std::env::consts::ARCH.to_owned(), |(_, name)| name.to_owned());
    let release = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    let kernel = format!("Linux {}", release.trim());
    Machine { cpu, cores, kernel, pinned }
}

pub(super) fn rfc3339_now() -> String {
    rfc3339(Clock::System.wall())
}

fn rfc3339(wall: Wall) -> String {
    humantime::format_rfc3339_seconds(wall.to_system_time()).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn leftovers_of_killed_harness_are_removed() {
        let place = tempfile::tempdir().unwrap();
        let gone = std::process::Command::new("/bin/true").spawn().and_then(|mut child| {
            child.wait()?;
            Ok(child.id())
        });
        let [left, kept @ ..] =
            [gone.unwrap().to_string(), std::process::id().to_string(), "notes".to_owned()].map(|of| {
                let folder = place.path().join(format!("{FOLDERS}{of}"));
                fs::create_dir_all(folder.join("0-nginx")).unwrap();
                folder
            });
        sweep(place.path());
        assert!(!left.exists() && kept.iter().all(|folder| folder.exists()));
    }
}
