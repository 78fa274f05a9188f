import { signal } from '@preact/signals'
import type { Job } from '../../src/api/types.ts'
import { counted } from '../text/numbers.ts'
import { errorText, getJson, postJson } from './api.ts'
import { revision } from './loaded.ts'

/** Jobs that this page has started, until they are dismissed. */
export const jobs = signal<readonly Job[]>([])

const pollInterval = 500

/** Follows a job until it ends. */
export async function followJob(started: Job): Promise<void> {
  let job = started
  put(job)
  while (job.state === 'running') {
    await new Promise((resolve) => setTimeout(resolve, pollInterval))
    try {
      job = await getJson<Job>(`jobs/${encodeURIComponent(job.id)}`)
    } catch (error) {
      job = { ...job, state: 'failed', error: `The progress cannot be read any more, the action may still run. ${errorText(error)}` }
    }
    put(job)
  }
  revision.value += 1
}

export async function stopJob(id: string): Promise<void> {
  const stopped = await postJson<Job>(`jobs/${encodeURIComponent(id)}/stop`, {})
  // The loop above reports the end.
  if (stopped.state === 'running') put(stopped)
}

export function dismissJob(id: string): void {
  jobs.value = jobs.value.filter((job) => job.id !== id)
}

/** `Re-armed 412 records.` */
export function jobText(job: Job): string {
  const done = `${pastTense[job.action] ?? job.action} ${counted(job.count, job.action === 'replay' ? 'dead letter' : 'record')}`
  if (job.state === 'failed')
    return `${job.count > 0 ? `${done}, then failed: ` : 'Failed: '}${job.error ?? 'the server does not say why.'}`
  if (job.state === 'stopped') return `Stopped. ${done}.`
  if (job.state === 'running') return job.total === undefined ? `${done} so far` : `${done} of about ${counted(job.total, '').trim()}`
  return job.action === 'pause' || job.action === 'resume' ? `${pastTense[job.action]}.` : `${done}.`
}

const pastTense: Readonly<Record<string, string>> = {
  rearm: 'Re-armed',
  discard: 'Discarded',
  cancel: 'Cancelled',
  park: 'Parked',
  replay: 'Replayed',
  pause: 'Paused',
  resume: 'Resumed',
}

function put(job: Job): void {
  const others = jobs.value.filter(({ id }) => id !== job.id)
  jobs.value = [...others, job]
}
