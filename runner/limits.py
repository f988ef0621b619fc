"""How much one may ask of a site; what its operator sets is in config/settings.py."""

# Trials of the trigger in one submitted run.
MAX_TRIALS = 20
# Named waiters of a run. Beyond, the site itself waits, so that no cancel ends the run.
MOST_JOINERS = 100
# Sweeps that have not ended, of one requester and of the site.
OWN_JOBS, ALL_JOBS = 2, 20
# Requests that wait for the end of a run, each with a thread of the server, and how
# many seconds: whoever comes later is answered at once.
WAITING, MAX_WAIT_S = 4, 30
# Names of builds that one sender of evidence may have here.
MAX_BUILDS = 200
