import { BadRequestException, Body, Controller, HttpStatus, Inject, Post, Res } from '@nestjs/common'
import type { Order } from './order.entity.ts'
import { OrdersService } from './orders.service.ts'

/** The part of the response that is used, on any platform of Nest. */
interface Response {
  status(code: number): unknown
}

@Controller('orders')
export class OrdersController {
  readonly #orders: OrdersService

  constructor(@Inject(OrdersService) orders: OrdersService) {
    this.#orders = orders
  }

  /** 201, or 200 if the order was placed before. A client that received no answer may retry. */
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
 * INSERT IGNORE, which detects repeated orders, also truncates values that are too long for their column, and MariaDB treats `O-1` and `o-1` as the
 * same key. Either could mistake a new order for an old one, so both are rejected here.
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
