import type { VNode } from 'preact'
import { dismissJob, jobs } from '../state/jobs.ts'
import { JobProgress } from './job-progress.tsx'

/** Jobs that run, or have ended, while their dialog is closed. */
export function JobList({ except }: { readonly except: string | undefined }): VNode | null {
  const shown = jobs.value.filter(({ id }) => id !== except)
  if (shown.length === 0) return null
  return (
    <aside class="jobs" aria-label="Actions">
      {shown.map((job) => (
        <div class="row" key={job.id}>
          <JobProgress job={job} />
          {job.state !== 'running' && (
            <button type="button" class="quiet" onClick={() => dismissJob(job.id)}>
              Dismiss
            </button>
          )}
        </div>
      ))}
    </aside>
  )
}
