import { useSignal } from '@preact/signals'
import type { VNode } from 'preact'
import type { DoctorCheck } from '../../src/api/types.ts'
import { Empty, ErrorMessage } from '../parts/messages.tsx'
import { PageHeading } from '../parts/page-heading.tsx'
import { StateBadge } from '../parts/state-badge.tsx'
import { errorText, postJson } from '../state/api.ts'
import { counted } from '../text/numbers.ts'
import { visibleLines, visibleText } from '../text/visible-text.ts'

const badges = { ok: 'good', warning: 'warn', failed: 'bad', unknown: 'neutral' } as const

export function Doctor(): VNode {
  const checks = useSignal<readonly DoctorCheck[] | undefined>(undefined)
  const error = useSignal<string | undefined>(undefined)
  const running = useSignal(false)

  async function run() {
    running.value = true
    error.value = undefined
    try {
      const result = await postJson<{ readonly checks: readonly DoctorCheck[] }>('doctor', {})
      checks.value = result.checks
    } catch (reason) {
      error.value = errorText(reason)
    } finally {
      running.value = false
    }
  }

  return (
    <>
      <PageHeading title="Doctor">
        <button type="button" class="primary" disabled={running.value} onClick={run}>
          {running.value ? 'Running…' : 'Run the checks'}
        </button>
      </PageHeading>
      {error.value !== undefined && <ErrorMessage text={error.value} />}
      <p class="hidden" role="status">
        {checks.value !== undefined && !running.value && `${counted(checks.value.length, 'check')} done`}
      </p>
      {checks.value === undefined ? (
        <Empty title="Is everything set up well?">
          The checks of `ackord doctor`: connections, schema, rights, settings of the servers, health of the outbox and destinations at the
          brokers.
        </Empty>
      ) : (
        <div class="card">
          <table class="stacked" aria-label="Checks">
            <thead>
              <tr>
                <th scope="col">Check</th>
                <th scope="col">Of</th>
                <th scope="col">Result</th>
                <th scope="col">Explanation</th>
              </tr>
            </thead>
            <tbody>
              {checks.value.map(({ store, of = 'store', title, result, text }) => (
                <tr key={`${of} ${store} ${title} ${text}`}>
                  <th scope="row">{visibleText(title)}</th>
                  <td data-label="Of">
                    {of} {visibleText(store)}
                  </td>
                  <td data-label="Result">
                    <StateBadge state={badges[result]} text={result} />
                  </td>
                  <td data-label="Explanation" class="long">
                    {visibleLines(text)}
                  </td>
                </tr>
              ))}
            </tbody>
          </table>
        </div>
      )}
    </>
  )
}
