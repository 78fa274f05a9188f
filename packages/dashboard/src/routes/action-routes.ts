import type { OutboxAdmin, OutboxRecord } from '@ackord/outbox'
import { previewAction } from '../actions/count-records.ts'
import { checkRights, type Identity, rightsFor } from '../actions/identity.ts'
import { checkSupported, describeAction, runAction } from '../actions/run-action.ts'
import { type Action, readAction } from '../api/action-request.ts'
import type { Job } from '../api/types.ts'
import { conflict } from '../http/api-failure.ts'
import { readJson } from '../http/request-body.ts'
import { json } from '../http/responses.ts'
import { checkWritable, findNamed, type Route, type Services } from './route.ts'

/** Milliseconds that a request waits for an action which does not run in steps. */
const answerWithin = 5000

/** Actions, their previews, and the jobs that carry them out. */
export function actionRoutes(services: Services): readonly Route[] {
  const { stores, view, sealed, poller, jobs, actionLog, actionLimit, previewLimit, runtime } = services
  const read = async (request: Request) => readAction(await readJson(request, runtime), (reference) => sealed.resolve(reference))

  /** Throws if a text that users see redacted would be replaced. `undefined`: the action replaces none. */
  function redactionCheck(action: Action): ((record: OutboxRecord) => void) | undefined {
    const { data, attributes = {} } = (action.action === 'rearm' && action.edit) || {}
    const names = Object.keys(attributes).filter((name) => attributes[name] !== undefined)
    if (data === undefined && names.length === 0) return undefined
    return (record) => {
      if (data !== undefined && view.isPayloadRedacted(record))
        throw conflict('redacted', 'The payload of this record is redacted. An edit would replace the stored payload by the redacted one.')
      const [name] = view.redactedAttributes(record, names)
      if (name !== undefined)
        throw conflict('redacted', `The attribute ${name} of the record ${record.id} is redacted, so that it cannot be replaced.`)
    }
  }

  /** Records that a filter selects are checked when they are read, before each step. */
  async function checkNotRedacted(admin: OutboxAdmin, action: Action): Promise<void> {
    const check = redactionCheck(action)
    if (check === undefined || !('which' in action) || !('ids' in action.which)) return
    for (const id of action.which.ids) {
      const record = await admin.get(id)
      if (record !== undefined) check(record)
    }
  }

  function start(store: string, admin: OutboxAdmin, action: Action, { name: by }: Identity): Job {
    const { reason } = action
    return jobs.start({
      action: action.action,
      rights: rightsFor(action),
      work: (progress) => runAction(admin, action, by, { progress, runtime, check: redactionCheck(action), payloads: view.needsPayloads }),
      onEnd(job) {
        poller.expire(store, 'which' in action ? 'stats' : 'activity')
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
        const action = await read(request)
        previewLimit.take(identity.name)
        return json(await previewAction(admin, action, runtime))
      },
    },
    {
      method: 'POST',
      path: 'stores/:store/actions',
      rights: [],
      async answer({ request, part, identity }) {
        const store = part('store')
        const admin = findNamed(stores, 'store', store)
        checkWritable(services)
        const action = await read(request)
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
  ]
}
