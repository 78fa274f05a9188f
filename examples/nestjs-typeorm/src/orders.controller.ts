import { BadRequestException, Body, Controller, HttpStatus, Inject, Post, Res } from '@nestjs/common'
import type { Order } from './order.entity.ts'
import { OrdersService } from './orders.service.ts'

/** What is used of the response, whatever platform Nest runs on. */
interface Response {
  status(code: number): unknown
}

@Controller('orders')
export class OrdersController {
  readonly #orders: OrdersService

  constructor(@Inject(OrdersService) orders: OrdersService) {
    this.#orders = orders
  }

  /** 201, or 200 for one that was placed before. A client that got no answer may ask again. */
  @Post()
  async place(@Body() body: unknown, @Res({ passthrough: true }) response: Response): Promise<{ readonly id: string }> {
    if (!isOrder(body))
      throw new BadRequestException('An order has an id of small letters, digits and dashes, a product and a quantity of at least 1.')
    const isNew = await this.#orders.place(body)
    response.status(isNew ? HttpStatus.CREATED : HttpStatus.OK)
    return { id: body.id }
  }
}

/**
 * INSERT IGNORE, which finds orders that were placed before, also cuts what is too long for its column; and to MariaDB `O-1` is the same key as `o-1`.
 * Either would take a new order for an old one, so neither gets there.
 */
const idShape = /^[a-z0-9-]{1,36}$/
const maxProductLength = 100
const maxQuantity = 2 ** 31 - 1

function isOrder(value: unknown): value is Order {
  if (typeof value !== 'object' || value === null) return false
  const { id, product, quantity } = value as Record<string, unknown>
  if (typeof id !== 'string' || !idShape.test(id)) return false
  if (typeof product !== 'string' || product.length > maxProductLength) return false
  return Number.isSafeInteger(quantity) && Number(quantity) > 0 && Number(quantity) <= maxQuantity
}
