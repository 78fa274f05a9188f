import { type Runtime, toError } from '@ackord/core'
import { messageOf, settledWithin } from '@ackord/core/internal'
import type { Job, Right } from '../api/types.ts'
import { notFound, tooMany } from '../http/api-failure.ts'

const maxJobs = 1000

/** The progress that a job reports, and the signal that stops it. */
export interface JobProgress {
  /** Aborted when a user stops the job, or the dashboard is closed. The step that is running is finished. */
  readonly signal: AbortSignal
  /** Records that were changed so far. */
  count: number
  total: number | undefined
}

export interface EndedJob extends Job {
  readonly state: 'done' | 'stopped' | 'failed'
}

export interface JobOptions {
  readonly action: string
  /** The rights that are needed to stop it: those that were needed to start it. */
  readonly rights: readonly Right[]
  /** Called once, when the job has ended, with the error that users may not see. */
  readonly onEnd: (job: EndedJob) => void
  readonly work: (progress: JobProgress) => Promise<void>
}

/** Actions that are running, and the last ones that have ended. They are kept in memory only: the audit is in the stores. */
export class Jobs {
  readonly #runtime: Runtime
  readonly #showError: (error: string) => string
  /** The oldest first. */
  readonly #jobs = new Map<string, StoredJob>()

  /** `showError` returns the text of an error as users may see it. */
  constructor(runtime: Runtime, showError: (error: string) => string) {
    this.#runtime = runtime
    this.#showError = showError
  }

  get(id: string): Job {
    return this.#find(id).shown
  }

  rightsOf(id: string): readonly Right[] {
    return this.#find(id).rights
  }

  /** Ends a job after its current step. Has no effect on a job that has ended. */
  stop(id: string): Job {
    const job = this.#find(id)
    job.stop()
    return job.shown
  }

  start({ action, rights, onEnd, work }: JobOptions): Job {
    this.#makeRoom()
    const job = new StoredJob(this.#runtime.uuid(), { action, rights, showError: this.#showError })
    this.#jobs.set(job.id, job)
    job.ended = job.run(work, onEnd)
    return job.shown
  }

  /** The job when it has ended, or as it is after `limit` milliseconds. */
  async ended(id: string, limit: number): Promise<Job> {
    const job = this.#find(id)
    await settledWithin(this.#runtime, limit, job.ended)
    return job.shown
  }

  /** Stops all jobs, and waits for their current steps. */
  async close(limit: number): Promise<void> {
    const running = [...this.#jobs.values()].filter(({ isRunning }) => isRunning)
    for (const job of running) job.stop()
    if (running.length > 0) await settledWithin(this.#runtime, limit, Promise.all(running.map(({ ended }) => ended)))
  }

  #find(id: string): StoredJob {
    const job = this.#jobs.get(id)
    if (job === undefined) throw notFound('There is no such job. Jobs are forgotten when the process of the dashboard ends.')
    return job
  }

  #makeRoom(): void {
    if (this.#jobs.size < maxJobs) return
    const oldest = [...this.#jobs.values()].find(({ isRunning }) => !isRunning)
    if (oldest === undefined) throw tooMany(`${maxJobs} jobs are running. Wait for some of them to end.`)
    this.#jobs.delete(oldest.id)
  }
}

/** Keeps no reference to its work after the end: an edited payload may have megabytes. */
class StoredJob implements JobProgress {
  readonly id: string
  readonly rights: readonly Right[]
  count = 0
  total: number | undefined
  /** Resolves when the job has ended. */
  ended: Promise<void> = Promise.resolve()
  readonly #action: string
  readonly #showError: (error: string) => string
  readonly #controller = new AbortController()
  #state: Job['state'] = 'running'
  #error: string | undefined

  constructor(
    id: string,
    { action, rights, showError }: Pick<JobOptions, 'action' | 'rights'> & { readonly showError: (error: string) => string },
  ) {
    this.id = id
    this.#action = action
    this.rights = rights
    this.#showError = showError
  }

  get signal(): AbortSignal {
    return this.#controller.signal
  }

  get isRunning(): boolean {
    return this.#state === 'running'
  }

  get shown(): Job {
    const error = this.#error === undefined ? undefined : this.#showError(this.#error)
    return { id: this.id, state: this.#state, action: this.#action, count: this.count, total: this.total, error }
  }

  stop(): void {
    this.#controller.abort()
  }

  /** Never rejects. */
  async run(work: JobOptions['work'], onEnd: JobOptions['onEnd']): Promise<void> {
    let state: EndedJob['state']
    try {
      await work(this)
      state = this.signal.aborted ? 'stopped' : 'done'
    } catch (error) {
      state = 'failed'
      this.#error = messageOf(toError(error))
    }
    this.#state = state
    onEnd({ ...this.shown, state, error: this.#error })
  }
}
