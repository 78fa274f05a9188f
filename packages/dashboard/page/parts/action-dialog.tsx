import { useSignal } from '@preact/signals'
import type { VNode } from 'preact'
import { useEffect, useRef } from 'preact/hooks'
import type { Preview } from '../../src/api/types.ts'
import { type PendingAction, pendingAction } from '../state/actions.ts'
import { errorText } from '../state/api.ts'
import { dismissJob, followJob, jobs } from '../state/jobs.ts'
import { counted } from '../text/numbers.ts'
import { JobProgress } from './job-progress.tsx'
import { ErrorMessage } from './messages.tsx'

interface ActionDialogProps {
  readonly action: PendingAction
  /** Called with the id of the job that the dialog shows. */
  readonly onJob: (id: string | undefined) => void
}

/** Shows what an action would do, asks for a reason, starts it and shows its progress. */
export function ActionDialog({ action, onJob }: ActionDialogProps): VNode {
  const dialog = useRef<HTMLDialogElement>(null)
  const preview = useSignal<Preview | undefined>(undefined)
  const error = useSignal<string | undefined>(undefined)
  const reason = useSignal('')
  const starting = useSignal(false)
  const jobId = useSignal<string | undefined>(undefined)
  const job = jobs.value.find(({ id }) => id === jobId.value)
  const problem = action.problem?.value
  const isEmpty = preview.value?.count === 0 && !preview.value.capped && !action.withoutRecords
  const canStart = !starting.value && reason.value.trim() !== '' && problem === undefined && preview.value !== undefined

  useEffect(() => {
    dialog.current?.showModal()
    action
      .preview()
      .then((counts) => {
        preview.value = counts
      })
      .catch((failure: unknown) => {
        error.value = errorText(failure)
      })
  }, [])

  async function start(event: Event) {
    event.preventDefault()
    if (!canStart) return
    starting.value = true
    error.value = undefined
    try {
      const started = await action.start(reason.value.trim())
      jobId.value = started.id
      onJob(started.id)
      void followJob(started)
    } catch (failure) {
      error.value = errorText(failure)
      starting.value = false
    }
  }

  function closed() {
    if (job !== undefined && job.state !== 'running') dismissJob(job.id)
    onJob(undefined)
    // The browser reports the end of a dialog a moment later: another one may have been opened since.
    if (pendingAction.value === action) pendingAction.value = undefined
  }

  const close = () => dialog.current?.close()
  return (
    <dialog ref={dialog} aria-labelledby="dialog-title" onClose={closed}>
      <form onSubmit={start}>
        <h2 id="dialog-title">{action.title}</h2>
        {job !== undefined && <JobProgress job={job} />}
        {job === undefined && (
          <>
            <p class="preview" role="status">
              {explanation(action, preview.value, error.value)}
            </p>
            {action.fields}
            {problem !== undefined && problem !== '' && <ErrorMessage text={problem} />}
            <div class="field">
              <label for="reason">Reason</label>
              <input
                id="reason"
                autocomplete="off"
                required
                maxLength={500}
                placeholder="For the audit, for example: broker is back"
                value={reason.value}
                onInput={(event) => {
                  reason.value = event.currentTarget.value
                }}
              />
            </div>
          </>
        )}
        {error.value !== undefined && <ErrorMessage text={error.value} />}
        <div class="row end">
          <button type="button" onClick={close}>
            {job === undefined ? 'Cancel' : job.state === 'running' ? 'Continue in the background' : 'Close'}
          </button>
          {job === undefined && (
            <button type="submit" class={action.danger ? 'danger' : 'primary'} disabled={!canStart || isEmpty}>
              {starting.value ? 'Starting…' : action.verb}
            </button>
          )}
        </div>
      </form>
    </dialog>
  )
}

function explanation(action: PendingAction, counts: Preview | undefined, error: string | undefined): string {
  const { explain, noun = 'record', withoutRecords } = action
  if (counts === undefined) return error === undefined ? `Counting the ${noun}s…` : ''
  const { count, capped } = counts
  if (count === 0 && capped) return explain(`all ${noun}s that match`)
  if (count === 0 && !withoutRecords) return `No ${noun} would be changed.`
  return explain(counted(count, noun, capped))
}
