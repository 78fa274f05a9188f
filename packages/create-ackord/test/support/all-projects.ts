import { brokers, clients, frameworks, stores } from '../../src/choices/catalog.ts'
import type { Choices } from '../../src/choices/choices.ts'
import { generateProject } from '../../src/project/generate-project.ts'

export interface GeneratedProject {
  readonly title: string
  readonly choices: Choices
  readonly files: ReadonlyMap<string, string>
}

/** Every combination of store, client, broker and framework. */
export const allProjects: readonly GeneratedProject[] = stores.flatMap(({ value: store }) =>
  clients[store].flatMap(({ value: client }) =>
    brokers.flatMap(({ value: broker }) =>
      frameworks.map(({ value: framework }) => {
        const choices = { store, client, broker, framework }
        return { title: [store, client, broker, framework].join('-'), choices, files: generateProject('shop', choices) }
      }),
    ),
  ),
)
