import { optional, readFields, readText } from '../api/read-input.ts'
import { maxIdLength } from '../api/record-query.ts'
import type { DoctorCheck } from '../api/types.ts'
import { conflict } from '../http/api-failure.ts'
import { json } from '../http/responses.ts'
import { findNamed, type Route, type Services, withClientInput } from './route.ts'

/** Inboxes, and the checks of the doctor. */
export function inspectionRoutes({ inboxes, doctor }: Services): readonly Route[] {
  let checking: Promise<readonly DoctorCheck[]> | undefined

  /** Requests that arrive while the checks run share their result. */
  async function runDoctor(): Promise<readonly DoctorCheck[]> {
    if (doctor === undefined) throw conflict('unsupported', "There are no checks: the dashboard was created without the option 'doctor'.")
    checking ??= Promise.resolve(doctor()).finally(() => {
      checking = undefined
    })
    return await checking
  }

  return [
    {
      method: 'GET',
      path: 'inboxes/:inbox',
      rights: ['view'],
      async answer({ part, parameters }) {
        const inbox = findNamed(inboxes, 'inbox', part('inbox'))
        const fields = readFields(Object.fromEntries(parameters), 'The query', ['id', 'consumer', 'source'])
        const text = (name: string) => (value: unknown) => readText(value, name, maxIdLength)
        const id = text('id')(fields['id'])
        const consumer = optional(fields['consumer'], text('consumer'))
        // An empty source is that of messages without one.
        const source = fields['source'] === '' ? '' : optional(fields['source'], text('source'))
        return json({ entries: await withClientInput(() => inbox.find(id, { consumer, source })) })
      },
    },
    { method: 'POST', path: 'doctor', rights: ['view'], answer: async () => json({ checks: await runDoctor() }) },
  ]
}
