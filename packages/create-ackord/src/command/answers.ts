import { basename, resolve } from 'node:path'
import { clients, defaults } from '../choices/catalog.ts'
import type { Choices } from '../choices/choices.ts'
import { InvalidChoiceError } from '../choices/invalid-choice-error.ts'
import { checkProjectName } from '../choices/project-name.ts'
import type { Flags } from './flags.ts'

/** Everything that is needed to create a project. */
export interface Answers {
  /** Absolute, or relative to the working directory. */
  readonly directory: string
  readonly name: string
  readonly choices: Choices
}

/** Asks a person for everything that no flag says. */
export type AskQuestions = (flags: Flags) => Promise<Answers>

export const defaultDirectory = 'my-service'

/** The answers from the flags alone. Rejects if something is missing and `--yes` was not given. */
export function answersFromFlags(flags: Flags): Answers {
  const { yes, directory, store, broker, framework } = flags
  const missing = Object.entries({ directory, '--store': store, '--broker': broker, '--framework': framework })
    .filter(([, value]) => value === undefined)
    .map(([name]) => name)
  if (missing.length > 0 && !yes) {
    throw new InvalidChoiceError(
      `There is no terminal to ask questions in, and these are missing: ${missing.join(', ')}. Give them, or --yes for the defaults ` +
        `(${defaultDirectory} --store ${defaults.store} --broker ${defaults.broker} --framework ${defaults.framework}).`,
    )
  }
  return completeAnswers(flags, { directory: directory ?? defaultDirectory, ...chosen(flags) })
}

/** The choices from the flags, with defaults for missing ones. */
function chosen({ store = defaults.store, client, broker = defaults.broker, framework = defaults.framework }: Flags): Choices {
  return { store, client: client ?? clients[store][0].value, broker, framework }
}

/** Adds the name of the package, which must be valid. */
export function completeAnswers(flags: Flags, { directory, ...choices }: Choices & { readonly directory: string }): Answers {
  const name = flags.name ?? basename(resolve(directory))
  return { directory, name: checkProjectName(name), choices }
}
