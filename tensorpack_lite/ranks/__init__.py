"""
Side channel between the processes ("ranks") of one training.

**In:** the variables of the launcher, such as `TF_CONFIG` or those of `srun`, and the secret of the job.
**Out:** `RankChannel`, over which ranks report their status, exchange small values, and learn that another rank failed.
**Next:** train, whose `RankTrainer` opens a channel; the engine (TensorFlow or Horovod) moves the gradients.

    python -m tensorpack_lite.launch -n 3 script.py        starts the ranks, serves `rendezvous` for Horovod
          |                    |                    |
      rank 0 (chief)         rank 1               rank 2
    +----------------+   +---------------+   +---------------+
    | RankTrainer    |   | RankTrainer   |   | RankTrainer   |   train/rank_trainer.py
    | RankConnection |   | RankConnection|   | RankConnection|   train/rank_connection.py: the status of this rank
    | RankChannel    |   | RankChannel   |   | RankChannel   |   channel.py: status 4 times a second, gathers, scatters
    |     |          |   |     |         |   |     |         |
    |  RankHub <-----|---|-----+---------|---|-----+         |   hub.py: TCP, lines of JSON
    +----------------+   +---------------+   +---------------+
           |
      find_failure()   one sentence, which the hub sends to all ranks       diagnosis.py

    engine: rank 0 <== gradients ==> rank 1 <== gradients ==> rank 2        graph_builder/collective.py, horovod.py

`place` finds the rank of this process, `meeting` where the ranks meet, `connecting` opens its connection, `authentication` admits only
ranks of this job, `messages` checks incoming messages, `gathers` collects the values that ranks exchange, and `loopback` keeps traffic
of one machine on that machine.
Nothing here imports TensorFlow or NumPy.
"""
