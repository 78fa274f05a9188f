// The generator without the command, for programs that create projects themselves.

export type { Broker, Client, Framework, Store } from './choices/catalog.ts'
export type { Choices } from './choices/choices.ts'
export { InvalidChoiceError } from './choices/invalid-choice-error.ts'
export { generateProject } from './project/generate-project.ts'
