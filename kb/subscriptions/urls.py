"""The page of an account's subscriptions, below the language's prefix."""

from django.urls import path

from kb.subscriptions import views

urlpatterns = [
    path("watching/", views.subscriptions, name="subscriptions"),
    path(
        "watching/<int:subscription_id>/remove/",
        views.unsubscribe,
        name="subscription-remove",
    ),
]
