import { useSignal } from '@preact/signals'
import type { VNode } from 'preact'
import type { Job } from '../../src/api/types.ts'
import { errorText } from '../state/api.ts'
import { jobText, stopJob } from '../state/jobs.ts'
import { visibleText } from '../text/visible-text.ts'
import { ErrorMessage } from './messages.tsx'

export function JobProgress({ job }: { readonly job: Job }): VNode {
  const { state, count, total } = job
  const problem = useSignal<string | undefined>(undefined)
  const stopping = useSignal(false)

  async function stop() {
    stopping.value = true
    try {
      await stopJob(job.id)
    } catch (error) {
      problem.value = errorText(error)
      stopping.value = false
    }
  }

  return (
    <div class={`job ${state}`}>
      <p role="status">{visibleText(jobText(job))}</p>
      {state === 'running' && (
        <div class="row">
          <progress aria-label="Progress" {...(total === undefined ? {} : { value: count, max: Math.max(count, total, 1) })} />
          <button type="button" disabled={stopping.value} onClick={stop}>
            {stopping.value ? 'Stopping…' : 'Stop'}
          </button>
        </div>
      )}
      {problem.value !== undefined && <ErrorMessage text={problem.value} />}
    </div>
  )
}
