import type { VNode } from 'preact'
import type { MessagesOverview } from '../../src/api/types.ts'
import { wholeNumber } from '../text/numbers.ts'
import { visibleText } from '../text/visible-text.ts'
import { Sparkline } from './sparkline.tsx'

const columns = [
  ['handled', 'Handled'],
  ['duplicates', 'Duplicates'],
] as const

/** The outcomes of the messages of the consumers that run beside the dashboard. */
export function ConsumerTable({ messages }: { readonly messages: MessagesOverview }): VNode {
  const { consumers, failed, rejected } = messages
  return (
    <section class="card" aria-labelledby="consumers-title">
      <header class="card-heading">
        <h2 id="consumers-title">Consumers</h2>
        <span class="muted">
          of this process, since it started: {wholeNumber(failed)} failed, {wholeNumber(rejected)} rejected
        </span>
      </header>
      <table class="stacked">
        <thead>
          <tr>
            <th scope="col">Consumer</th>
            {columns.map(([name, text]) => (
              <th scope="col" class="number" key={name}>
                {text}
              </th>
            ))}
            <th scope="col" class="number">
              Handled/min
            </th>
          </tr>
        </thead>
        <tbody>
          {consumers.map((consumer) => (
            <tr key={consumer.consumer}>
              <th scope="row">{visibleText(consumer.consumer)}</th>
              {columns.map(([name, text]) => (
                <td class="number" data-label={text} key={name}>
                  {wholeNumber(consumer[name])}
                </td>
              ))}
              <td class="number" data-label="Handled/min">
                <span class="trend">
                  <Sparkline values={consumer.perMinute.map(({ handled }) => handled)} />
                  {wholeNumber(consumer.perMinute.at(-1)?.handled ?? 0)}
                </span>
              </td>
            </tr>
          ))}
        </tbody>
      </table>
    </section>
  )
}
