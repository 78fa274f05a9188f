import type { VNode } from 'preact'
import type { AuditEntry } from '../../src/api/types.ts'
import { Empty, WhenLoaded } from '../parts/messages.tsx'
import { PageHeading } from '../parts/page-heading.tsx'
import { StateBadge } from '../parts/state-badge.tsx'
import { StoreChoice } from '../parts/store-choice.tsx'
import { Instant } from '../parts/times.tsx'
import { storePath } from '../state/api.ts'
import { useLoaded } from '../state/loaded.ts'
import { goTo } from '../state/navigation.ts'
import { session } from '../state/session.ts'
import { wholeNumber } from '../text/numbers.ts'
import { visibleText } from '../text/visible-text.ts'

export function Audit({ store: chosen }: { readonly store: string | undefined }): VNode {
  const store = chosen ?? session.value?.stores[0] ?? ''
  const loaded = useLoaded<{ readonly entries: readonly AuditEntry[] }>(storePath(store, 'audit'))
  return (
    <>
      <PageHeading title="Audit">
        <StoreChoice store={store} onChoose={(other) => goTo({ page: 'audit', store: other })} />
        <button type="button" onClick={loaded.reload}>
          Refresh
        </button>
      </PageHeading>
      <WhenLoaded loaded={loaded}>
        {({ entries }) =>
          entries.length === 0 ? (
            <Empty title="No actions yet">What operators do here or with the command is kept for 90 days.</Empty>
          ) : (
            <div class="card">
              <table class="stacked" aria-label="Actions of operators">
                <thead>
                  <tr>
                    <th scope="col">When</th>
                    <th scope="col">Who</th>
                    <th scope="col">Action</th>
                    <th scope="col">What</th>
                    <th scope="col" class="number">
                      Records
                    </th>
                    <th scope="col">Why</th>
                  </tr>
                </thead>
                <tbody>
                  {entries.map((entry) => (
                    <tr key={entry.id}>
                      <th scope="row">
                        <Instant at={entry.at} store={store} />
                      </th>
                      <td data-label="Who">{visibleText(entry.by ?? 'unknown')}</td>
                      <td data-label="Action">
                        <StateBadge
                          state={entry.action === 'discard' || entry.action === 'cancel' ? 'bad' : 'neutral'}
                          text={entry.action === 'rearm' ? 're-arm' : entry.action}
                        />
                      </td>
                      <td data-label="What" class="long">
                        {visibleText(entry.what)}
                      </td>
                      <td data-label="Records" class="number">
                        {entry.count === undefined ? '–' : wholeNumber(entry.count)}
                      </td>
                      <td data-label="Why" class="long">
                        {visibleText(entry.reason ?? '–')}
                        {entry.error !== undefined && <span class="last-error">Failed: {visibleText(entry.error)}</span>}
                      </td>
                    </tr>
                  ))}
                </tbody>
              </table>
            </div>
          )
        }
      </WhenLoaded>
    </>
  )
}
