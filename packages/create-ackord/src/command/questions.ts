import { basename, resolve } from 'node:path'
import type { Readable, Writable } from 'node:stream'
import { isCancel, select, text } from '@clack/prompts'
import { brokers, clients, defaults, frameworks, type Option, stores } from '../choices/catalog.ts'
import { checkProjectName } from '../choices/project-name.ts'
import { type Answers, completeAnswers, defaultDirectory } from './answers.ts'
import { CancelledError } from './cancelled-error.ts'
import type { Flags } from './flags.ts'

/** Where questions are asked. Default: the terminal of the process. */
export interface Terminal {
  readonly input?: Readable
  readonly output?: Writable
}

/** Asks for everything that no flag says. */
export async function askQuestions(flags: Flags, terminal: Terminal = {}): Promise<Answers> {
  const ask = askOn(terminal)
  const directory = flags.directory ?? (await askDirectory(flags, terminal))
  const store = flags.store ?? (await ask('Where does the service keep its data?', stores, defaults.store))
  const client = flags.client ?? (await ask('With which client or ORM?', clients[store], clients[store][0].value))
  const broker = flags.broker ?? (await ask('Where do messages come from, and events go?', brokers, defaults.broker))
  const framework = flags.framework ?? (await ask('An HTTP API?', frameworks, defaults.framework))
  return completeAnswers(flags, { directory, store, client, broker, framework })
}

async function askDirectory({ name }: Flags, terminal: Terminal): Promise<string> {
  const answer = await text({
    ...terminal,
    message: 'In which directory?',
    placeholder: defaultDirectory,
    defaultValue: defaultDirectory,
    validate(value = '') {
      if (name !== undefined || value === '') return undefined
      try {
        checkProjectName(basename(resolve(value)))
        return undefined
      } catch (error) {
        return (error as Error).message
      }
    },
  })
  return answered(answer)
}

type Ask = <Value extends string>(message: string, options: readonly Option<Value>[], initialValue: Value) => Promise<Value>

function askOn(terminal: Terminal): Ask {
  return async (message, options, initialValue) => {
    if (options.length === 1) return initialValue
    // The options of clack are a conditional type of the value, which is not resolved for a type parameter.
    const answer = await select<string>({ ...terminal, message, options: options.map((option) => ({ ...option })), initialValue })
    return answered(answer) as typeof initialValue
  }
}

function answered(answer: string | symbol): string {
  if (isCancel(answer)) throw new CancelledError('Nothing was created.')
  return answer as string
}
