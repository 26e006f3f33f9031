//! The file: opened, closed after a failure and opened again, and what its errors mean.

use std::fs::TryLockError;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::RwLock;
use redb::{Builder, Database, Durability, Error, WriteTransaction};
use rustix::fs::{CWD, FallocateFlags, RenameFlags, fallocate, renameat_with};
use rustix::io::Errno;

use super::super::{EngineError, limits};
use super::layout::Unreadable;

const FILE: &str = "nearside.redb";
/// Has no name for longer than a moment.
const PROBE: &str = "nearside.probe";
const EMPTIED: &str = "the file is empty";
const GONE: &str = "the file is gone";
const TAKEN: &str = "the file's name is taken";

pub(super) struct Disk {
    directory: PathBuf,
    /// Closed after an error: redb takes no more writes after one of the disk's, until it is opened
    /// again.
    pub(super) database: RwLock<Option<Database>>,
    /// This process had it open before.
    was_open: AtomicBool,
}

/// Opens the file. A new one gets its name once redb has begun it, so that a process killed on the
/// way leaves none that is empty.
fn create(path: &Path, is_new: bool) -> Result<Database, Error> {
    let mut builder = Builder::new();
    builder.set_cache_size(limits::REDB_CACHE_BYTES);
    if !is_new {
        return Ok(builder.create(path)?);
    }
    let begun = path.with_extension("redb-new");
    match std::fs::remove_file(&begun) {
        Err(error) if error.kind() != ErrorKind::NotFound => return Err(error.into()),
        _ => {}
    }
    let database = builder.create(&begun)?;
    name(&begun, path)?;
    Ok(database)
}

/// Takes hold of room for the largest write in a file that is gone with the process, however that
/// ends.
fn reserve(path: &Path) -> io::Result<()> {
    let file = std::fs::File::create(path)?;
    std::fs::remove_file(path)?;
    match fallocate(&file, FallocateFlags::empty(), 0, limits::TRANSACTION_BYTES as u64) {
        // This file system reserves nothing, so nothing is known.
        Err(Errno::OPNOTSUPP | Errno::NOSYS | Errno::INVAL) | Ok(()) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

/// Renames a file that was begun. What has its name by now is not replaced: another process may have made
/// it, or it may be a link to a file system that is not there yet.
fn name(begun: &Path, path: &Path) -> Result<(), Error> {
    match renameat_with(CWD, begun, CWD, path, RenameFlags::NOREPLACE) {
        Ok(()) => Ok(()),
        Err(Errno::EXIST) => Err(io::Error::new(ErrorKind::InvalidData, TAKEN).into()),
        // This file system cannot; the name was free a moment ago.
        Err(Errno::INVAL | Errno::NOSYS | Errno::OPNOTSUPP) => Ok(std::fs::rename(begun, path)?),
        Err(error) => Err(io::Error::from(error).into()),
    }
}

impl Disk {
    pub(super) fn open(directory: &Path) -> Result<Self, EngineError> {
        let disk =
            Self { directory: directory.to_owned(), database: RwLock::new(None), was_open: AtomicBool::new(false) };
        disk.with(|_| Ok(()))?;
        Ok(disk)
    }

    /// Does something with the file, which is open then; blocks.
    pub(super) fn with<T>(&self, work: impl FnOnce(&Database) -> Result<T, Error>) -> Result<T, EngineError> {
        let outcome = self.opened().and_then(|()| {
            let database = self.database.read();
            database.as_ref().map_or(Err(Error::DatabaseClosed), work)
        });
        outcome.map_err(|error| {
            // This waits for those who are at it.
            *self.database.write() = None;
            self.error(error)
        })
    }

    /// Changes the file, all or nothing. What `work` did is on the disk when this returns, unless it
    /// says that there is nothing to keep.
    pub(super) fn change<T>(
        &self,
        work: impl FnOnce(&WriteTransaction) -> Result<(T, Keep), Error>,
    ) -> Result<T, EngineError> {
        self.with(|database| {
            let mut transaction = database.begin_write()?;
            transaction.set_durability(Durability::Immediate)?;
            // Else a killed process costs the next one a walk over the whole file.
            transaction.set_quick_repair(true);
            let (outcome, keep) = work(&transaction)?;
            match keep {
                Keep::All => transaction.commit()?,
                Keep::Nothing => transaction.abort()?,
            }
            Ok(outcome)
        })
    }

    fn opened(&self) -> Result<(), Error> {
        if self.database.read().is_some() {
            return Ok(());
        }
        let mut database = self.database.write();
        if database.is_none() {
            std::fs::create_dir_all(&self.directory)?;
            let path = self.directory.join(FILE);
            let _beginning = match path.symlink_metadata() {
                Err(error) if error.kind() == ErrorKind::NotFound => Some(self.only_beginner()?),
                _ => None,
            };
            let is_new = match std::fs::metadata(&path) {
                // redb would begin anew in it, and nobody would hear that everything is gone.
                Ok(kept) if kept.len() == 0 => return Err(io::Error::new(ErrorKind::InvalidData, EMPTIED).into()),
                Ok(_) => false,
                Err(error) if error.kind() != ErrorKind::NotFound => return Err(error.into()),
                // Its records were acknowledged: to begin anew would lose them without a word.
                Err(_) if self.was_open.load(Ordering::Relaxed) => {
                    return Err(io::Error::new(ErrorKind::InvalidData, GONE).into());
                }
                Err(_) if path.symlink_metadata().is_ok() => {
                    return Err(io::Error::new(ErrorKind::InvalidData, TAKEN).into());
                }
                Err(_) => true,
            };
            if is_new {
                tracing::info!(directory = %self.directory.display(), "a new data directory: it holds nothing yet");
            }
            let opened = create(&path, is_new)?;
            if is_new {
                // Else a power cut could take the file's name, and all that is in it.
                std::fs::File::open(&self.directory)?.sync_all()?;
            }
            *database = Some(opened);
            self.was_open.store(true, Ordering::Relaxed);
        }
        Ok(())
    }

    /// Locks the directory for as long as this process begins a file there: two at once would each begin
    /// their own, and one of them would write to what has no name any more.
    fn only_beginner(&self) -> Result<std::fs::File, Error> {
        let directory = std::fs::File::open(&self.directory)?;
        match directory.try_lock() {
            Err(TryLockError::WouldBlock) => Err(Error::DatabaseAlreadyOpen),
            // Some network file systems lock no directory.
            Err(TryLockError::Error(_)) | Ok(()) => Ok(directory),
        }
    }

    /// Takes hold of room for the largest write, and gives it back: blocks. What is full refuses that
    /// before a caller's write does.
    pub(super) fn probe_room(&self) -> Result<(), EngineError> {
        reserve(&self.directory.join(PROBE)).map_err(|error| self.error(error.into()))
    }

    pub(super) fn panicked(&self) -> EngineError {
        let why =
            format!("a call did not end; if the log says that redb panicked, {FILE} may be damaged: restore it");
        EngineError::Unavailable { what: format!("the data directory {}", self.directory.display()), why }
    }

    /// Nothing of it was begun.
    pub(super) fn busy(&self) -> EngineError {
        let what =
            format!("the data directory {}: too many bytes of writes wait for the disk", self.directory.display());
        EngineError::Throttled { what }
    }

    pub(super) fn refused(&self, why: &str) -> EngineError {
        EngineError::Refused {
            what: format!("the data directory {}", self.directory.display()),
            why: format!("{why}; start the version that wrote it, restore {FILE}, or give another directory"),
        }
    }

    pub(super) fn unreadable(&self, unreadable: Unreadable) -> EngineError {
        self.refused(&unreadable.to_string())
    }

    pub(super) fn error(&self, error: Error) -> EngineError {
        let what = format!("the data directory {}", self.directory.display());
        match error {
            Error::DatabaseAlreadyOpen => EngineError::Unavailable {
                what,
                why: "another process has it open; stop that one, or give this one a directory of its own".to_owned(),
            },
            Error::Io(io) => self.io_error(&io).unwrap_or_else(|| match io.kind() {
                ErrorKind::InvalidData if io.to_string() == EMPTIED => self.refused(
                    "its file is empty, and was not when it was made: restore it, or remove it to begin anew",
                ),
                ErrorKind::InvalidData if io.to_string() == GONE => self.refused(
                    "its file is gone since this process opened it: put it back, or start again to begin anew",
                ),
                ErrorKind::InvalidData if io.to_string() == TAKEN => self.refused(
                    "the name of its file is taken by something that is not there, such as a link to a file system \
                     that is not mounted",
                ),
                ErrorKind::InvalidData => self.refused("its file is not one of these, or damaged"),
                ErrorKind::UnexpectedEof => self.refused("its file ends early: some of it is lost"),
                // The last is a limit on the size of files.
                ErrorKind::StorageFull | ErrorKind::QuotaExceeded | ErrorKind::FileTooLarge => EngineError::Full {
                    what,
                    why: format!("the disk is full ({io}); free some space, and it goes on"),
                },
                _ => EngineError::Unavailable { what, why: io.to_string() },
            }),
            Error::Corrupted(why) => self.refused(&format!("its file is damaged, or of another version: {why}")),
            Error::UpgradeRequired(_) | Error::TableTypeMismatch { .. } | Error::TypeDefinitionChanged { .. } => {
                self.refused("its file is of another version")
            }
            other => EngineError::Unavailable { what, why: other.to_string() },
        }
    }

    /// Somebody has to do something about these.
    fn io_error(&self, error: &io::Error) -> Option<EngineError> {
        let directory = self.directory.display();
        match error.kind() {
            ErrorKind::PermissionDenied | ErrorKind::ReadOnlyFilesystem => Some(EngineError::Denied {
                action: format!("reading and writing ({error})"),
                resource: format!("the data directory {directory}"),
            }),
            ErrorKind::NotADirectory | ErrorKind::AlreadyExists => Some(EngineError::Missing {
                what: format!("the data directory {directory}"),
                advice: format!("a part of the path is no directory ({error}); give another"),
            }),
            _ => None,
        }
    }
}

/// Fate of a transaction.
pub(super) enum Keep {
    All,
    Nothing,
}
