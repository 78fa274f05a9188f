import type { Choices } from '../choices/choices.ts'
import type { PackageName } from './versions.ts'

/** The settings of a project, known before its pieces are created. */
export interface PieceContext {
  readonly choices: Choices
  /** Begins the names of queues, topics, streams and keys. */
  readonly prefix: string
}

/** A constant of `src/settings.ts`. */
export interface Setting {
  readonly constant: string
  /** The variable of the environment that replaces the value. Default: none, the value is fixed. */
  readonly variable?: string
  /** Without a value the setting is optional. */
  readonly value?: string | number
  /** A sentence for `src/settings.ts` and the README. */
  readonly meaning: string
}

/** The contribution of one choice to a project. The pieces know nothing of each other beyond the names in `PieceContext`. */
export interface Piece {
  readonly dependencies: readonly PackageName[]
  readonly devDependencies?: readonly PackageName[]
  /** By path. */
  readonly files: Readonly<Record<string, string>>
  readonly settings: readonly Setting[]
  /** The service in compose.yaml, by its name there: lines below the name. Default: the piece needs no server. */
  readonly servers?: Readonly<Record<string, string>>
  /** Files that a running project writes, for .gitignore. */
  readonly ignored?: readonly string[]
}

/** Imported names by module; `type X` for types, `default x` for a default import. */
export type Imports = Readonly<Record<string, readonly string[]>>

/** The store: `src/adapters` has a function that opens it, and a class with the orders. */
export interface StorePiece extends Piece {
  /** How people call it. */
  readonly title: string
  /** The name of the variable and of the option of `createService()`: `database` or `redis`. */
  readonly handle: 'database' | 'redis'
  readonly imports: Imports
  /** Statements of the program. */
  readonly open: string
  /** An expression: the object that implements `Orders`. */
  readonly orders: string
  /** A statement of the program. */
  readonly close: string
  /** Further options of `createService()`, a line each. */
  readonly options: readonly string[]
}

/** The broker. `src/send.ts` is its own, because it is the other end. */
export interface BrokerPiece extends Piece {
  readonly title: string
  readonly imports: Imports
  readonly open: string
  /** Expressions for `createService()`. */
  readonly source: string
  readonly publisher: string
  readonly destination: string
  readonly options: readonly string[]
  /** Statements that close the connections; empty if there are none. */
  readonly close: string
  /** The handler of requests, for a broker that needs a route of the HTTP server. */
  readonly route?: BrokerRoute
  readonly send: SendPiece
  /** A paragraph of the README. */
  readonly note?: string
}

export interface BrokerRoute {
  readonly path: string
  /** An expression: a function from a Request to a Response. */
  readonly handler: string
}

/** The differences in `src/send.ts`. */
interface SendPiece {
  readonly imports: Imports
  /** Statements that define `publisher` and `events`. */
  readonly open: string
  /** An expression: where the messages of the service go. */
  readonly destination: string
  /** Statements, after `events` and `publisher` are closed. */
  readonly close: string
}

/** The HTTP server, or what stands in its place. */
interface CommonFrameworkPiece extends Piece {
  readonly title: string
  /** Whether there is `POST /orders`, which stores an order and its event in one transaction. */
  readonly hasRoutes: boolean
  /** Whether the code uses decorators, which need a compiler option of TypeScript. Default: false. */
  readonly usesDecorators?: boolean
}

/** A framework that is a part of the program with `createService()`. */
export interface ServedFrameworkPiece extends CommonFrameworkPiece {
  readonly imports: Imports
  /** Statements before `createService()`. Default: none. */
  readonly open?: string
  /** Further options of `createService()`, a line each. */
  readonly options: readonly string[]
  /** Statements after `createService()`, which begin to accept requests. With routes they may use `placeOrder()`. */
  readonly listen: string
  /** The first statement of `onClose()`. Default: none. */
  readonly close?: string
  readonly program?: undefined
}

/** A framework that runs the service itself. */
export interface RunningFrameworkPiece extends CommonFrameworkPiece {
  /** The files that depend on store and broker, with `src/main.ts`, and the test of the handlers. */
  readonly program: (store: StorePiece, broker: BrokerPiece) => Readonly<Record<string, string>>
  /** Where a new handler is added, for the README: the end of a sentence. */
  readonly addHandler: string
}

export type FrameworkPiece = ServedFrameworkPiece | RunningFrameworkPiece
