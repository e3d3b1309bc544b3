"""A job as a user names it: by its id, or by its name where that says which."""

from stoker.characters import unseen

from conf.util.counted import counted
from daemon.auth.permits import Permit, no_such_job
from daemon.core.errors import RejectedError
from daemon.core.job_ids import job_number
from daemon.store.job_store import Store
from environment.model.messages.records import JobRecord

#: Of jobs with one name, so many are looked at: those that have not ended first, then the newest.
_MOST = 20


def find_job(store: Store, permit: Permit, named: str) -> JobRecord:
    """The job with this id, or of this name among those that the asker may see; RejectedError.

    The asker's own come before others': nobody else's job is meant by a name that one of them has. Of several
    it is the one that has not ended, or the newest where all have. Where several have not ended, the name
    says too little: 409.
    """
    record = store.jobs.get(named)
    if record is None:
        record = _by_name(store, permit, named)
    if record is None:
        raise no_such_job(named)
    permit.check(record)
    return record


def _by_name(store: Store, permit: Permit, name: str) -> JobRecord | None:
    owners = permit.owners(())
    if not name or owners is None or job_number(name) is not None or unseen(name):
        return None
    own = store.jobs.named(name, (permit.person.name,), _MOST) if permit.person.name else []
    found = own or store.jobs.named(name, owners, _MOST)
    going = [record for record in found if not record.ended]
    if len(going) > 1:
        ids = ", ".join(record.job.id for record in going[:5]) + (", ..." if len(going) > 5 else "")
        why = f"{counted(len(going), 'job')} that have not ended are called {name}: {ids}; give the id"
        raise RejectedError(409, "Several jobs have this name", why)
    return next(iter(found), None)
