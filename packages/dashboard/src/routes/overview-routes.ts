import type { Session } from '../api/types.ts'
import { json } from '../http/responses.ts'
import { version } from '../version.ts'
import type { Route, Services } from './route.ts'

/** The session, and the overview once or as events. */
export function overviewRoutes(services: Services): readonly Route[] {
  const { stores, inboxes, deadLetters, doctor, readOnly, traceUrl, csrf, poller, events } = services
  return [
    {
      method: 'GET',
      path: 'session',
      // The page says which rights are missing.
      rights: [],
      answer({ identity: { name, rights } }) {
        const session: Session = {
          name,
          rights,
          readOnly,
          csrf: csrf.tokenOf(name),
          stores: [...stores.keys()],
          inboxes: [...inboxes.keys()],
          deadLetters: [...deadLetters.keys()],
          doctor: doctor !== undefined,
          traceUrl,
          version,
        }
        return json(session)
      },
    },
    { method: 'GET', path: 'overview', rights: ['view'], answer: async () => json(await poller.look()) },
    { method: 'GET', path: 'events', rights: ['view'], answer: ({ request }) => events.open(request.signal) },
  ]
}
