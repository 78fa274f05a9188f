import type { DeadLetterPort } from '@ackord/core/broker'
import { describeIds } from '../actions/run-action.ts'
import { readReplay } from '../api/action-request.ts'
import { notFound } from '../http/api-failure.ts'
import { readJson } from '../http/request-body.ts'
import { json } from '../http/responses.ts'
import { type Call, checkWritable, findNamed, type Route, type Services } from './route.ts'

const maxLetters = 200
/** Letters of one message that are shown: several consumers may have rejected it. */
const maxFound = 20
/** Letters that a preview looks at. */
const maxPreviewed = 1000

/** The dead letters of brokers, and their replay. */
export function letterRoutes(services: Services): readonly Route[] {
  const { stores, deadLetters, letterView, sealed, jobs, actionLog, actionLimit, previewLimit, runtime } = services
  const portOf = ({ part }: Call): DeadLetterPort => findNamed(deadLetters, 'dead-letter destination', part('name'))
  const resolve = (reference: string) => sealed.resolve(reference)
  const read = async (request: Request) => readReplay(await readJson(request, runtime), resolve)

  return [
    {
      method: 'GET',
      path: 'dead-letters/:name',
      rights: ['view'],
      async answer(call) {
        const { letters, count } = await portOf(call).list({ limit: maxLetters, signal: call.request.signal })
        return json({ letters: letters.map((letter) => letterView.summary(letter)), count })
      },
    },
    {
      method: 'GET',
      path: 'dead-letters/:name/letters/:id',
      rights: ['view'],
      async answer(call) {
        const found = await portOf(call).find(resolve(call.part('id')), { limit: maxFound, signal: call.request.signal })
        if (found.length === 0) throw notFound('There is no such dead letter. It may have been replayed or discarded.')
        const payload = call.identity.rights.includes('payload')
        return json({ letters: found.map((letter) => letterView.detail(letter, { payload })) })
      },
    },
    {
      method: 'POST',
      path: 'dead-letters/:name/preview',
      rights: ['view'],
      async answer(call) {
        const port = portOf(call)
        const { ids } = await read(call.request)
        previewLimit.take(call.identity.name)
        return json(await port.preview(ids, { limit: maxPreviewed, signal: call.request.signal }))
      },
    },
    {
      method: 'POST',
      path: 'dead-letters/:name/replay',
      rights: ['rearm'],
      async answer(call) {
        const port = portOf(call)
        const [name, by] = [call.part('name'), call.identity.name]
        checkWritable(services)
        const { ids, reason } = await read(call.request)
        actionLimit.take(by)
        const what = ids === undefined ? 'all' : describeIds(ids)
        // A broker has no audit: the first store keeps it.
        const [keeper] = stores.values()
        const job = jobs.start({
          action: 'replay',
          rights: ['rearm'],
          async work(progress) {
            progress.total = ids?.length
            const onProgress = (replayed: number) => {
              progress.count = replayed
            }
            const replay = async () => {
              progress.count = await port.replay(ids, { signal: progress.signal, onProgress })
              return progress.count
            }
            if (keeper?.audited === undefined) await replay()
            else await keeper.audited({ action: 'replay', what: `dead letters of ${name}: ${what}`, by, reason }, replay)
          },
          onEnd: (ended) => actionLog.ended({ by, action: 'replay', store: name, what, reason }, ended),
        })
        return json(job)
      },
    },
  ]
}
