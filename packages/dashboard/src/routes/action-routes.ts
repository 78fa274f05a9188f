import type { OutboxAdmin } from '@ackord/outbox'
import { previewAction } from '../actions/count-records.ts'
import { checkRights, type Identity, rightsFor } from '../actions/identity.ts'
import { checkSupported, describeAction, describeIds, runAction } from '../actions/run-action.ts'
import { type Action, readAction, readReplay } from '../api/action-request.ts'
import type { Job } from '../api/types.ts'
import { conflict, forbidden } from '../http/api-failure.ts'
import { readJson } from '../http/request-body.ts'
import { json } from '../http/responses.ts'
import { findNamed, type Route, type Services } from './route.ts'

/** Milliseconds that a request waits for an action which does not run in steps. */
const answerWithin = 5000

/** Actions, their previews, and the jobs that carry them out. */
export function actionRoutes(services: Services): readonly Route[] {
  const { stores, deadLetters, readOnly, view, poller, jobs, actionLog, actionLimit, previewLimit, runtime } = services

  function checkWritable(): void {
    if (readOnly) throw forbidden('read_only', 'This dashboard is read-only.')
  }

  /** What is shown to users must not become what is stored. */
  async function checkNotRedacted(admin: OutboxAdmin, action: Action): Promise<void> {
    if (action.action !== 'rearm' || action.edit?.data === undefined || !('ids' in action.which)) return
    for (const id of action.which.ids) {
      const record = await admin.get(id)
      if (record !== undefined && view.isPayloadRedacted(record))
        throw conflict('redacted', 'The payload of this record is redacted. An edit would replace the stored payload by the redacted one.')
    }
  }

  function start(store: string, admin: OutboxAdmin, action: Action, { name: by }: Identity): Job {
    const { reason } = action
    return jobs.start({
      action: action.action,
      rights: rightsFor(action),
      work: (progress) => runAction(admin, action, by, progress),
      onEnd(job) {
        poller.expire(store, 'which' in action ? 'stats' : 'pauses')
        actionLog.ended({ by, action: action.action, store, what: describeAction(action), reason }, job)
      },
    })
  }

  return [
    {
      method: 'POST',
      path: 'stores/:store/preview',
      rights: ['view'],
      async answer({ request, part, identity }) {
        const admin = findNamed(stores, 'store', part('store'))
        const action = readAction(await readJson(request, runtime))
        previewLimit.take(identity.name)
        return json(await previewAction(admin, action))
      },
    },
    {
      method: 'POST',
      path: 'stores/:store/actions',
      rights: [],
      async answer({ request, part, identity }) {
        const store = part('store')
        const admin = findNamed(stores, 'store', store)
        checkWritable()
        const action = readAction(await readJson(request, runtime))
        checkRights(identity, rightsFor(action))
        checkSupported(admin, action, store)
        actionLimit.take(identity.name)
        await checkNotRedacted(admin, action)
        const job = start(store, admin, action, identity)
        const hasSteps = 'which' in action && 'filter' in action.which
        return json(hasSteps ? job : await jobs.ended(job.id, answerWithin))
      },
    },
    { method: 'GET', path: 'jobs/:id', rights: ['view'], answer: ({ part }) => json(jobs.get(part('id'))) },
    {
      method: 'POST',
      path: 'jobs/:id/stop',
      rights: [],
      answer({ part, identity }) {
        checkRights(identity, jobs.rightsOf(part('id')))
        return json(jobs.stop(part('id')))
      },
    },
    {
      method: 'POST',
      path: 'dead-letters/:name/replay',
      rights: ['rearm'],
      async answer({ request, part, identity: { name: by } }) {
        const store = part('name')
        const port = findNamed(deadLetters, 'dead-letter destination', store)
        checkWritable()
        const { messageIds, reason } = readReplay(await readJson(request, runtime))
        actionLimit.take(by)
        const what = messageIds === undefined ? 'all' : describeIds(messageIds)
        const job = jobs.start({
          action: 'replay',
          rights: ['rearm'],
          async work(progress) {
            progress.total = messageIds?.length
            const onProgress = (replayed: number) => {
              progress.count = replayed
            }
            progress.count = await port.replay(messageIds, { signal: progress.signal, onProgress })
          },
          onEnd: (ended) => actionLog.ended({ by, action: 'replay', store, what, reason }, ended),
        })
        return json(job)
      },
    },
  ]
}
